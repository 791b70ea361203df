"""Findings: what the practices have to say of configurations."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pratique.practices.definitions import Finding
from pratique.practices.registry import PRACTICES, RULES
from pratique.practices.subjects import Subject
from pratique.practices.suppressions import is_suppressed

__all__ = ["Finding", "find"]

if TYPE_CHECKING:
    from collections.abc import Collection

    from pratique.clusters import Cluster
    from pratique.configurations.all_configurations import Configurations
    from pratique.practices.trials import Trial


def find(
    configurations: Configurations,
    cluster: Cluster,
    trial: Trial,
    *,
    rules: Collection[str] = RULES,
    now: float | None = None,
) -> list[Finding]:
    """Find where practices are not followed, by file and line.

    Args:
        configurations: What is looked at.
        cluster: The cluster that they are for.
        trial: Tells what becomes of a request while the servers of all webhooks are down.
        rules: The names of the practices that are looked at.
        now: Seconds since 1970; None means the time that it is.
    """
    subject = Subject(configurations, cluster, trial, time.time() if now is None else now)
    found = [
        Finding(practice, breach)
        for practice in PRACTICES
        if practice.rule in rules
        for breach in practice.check(subject)
        if not is_suppressed(breach.owner.source, breach.path, practice.rule)
    ]
    return sorted(found, key=_place)


def _place(finding: Finding) -> tuple[str, int]:
    source = finding.breach.owner.source
    return ("", 0) if source is None else (source.file, source.position(finding.breach.path).line)
