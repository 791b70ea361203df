"""Evaluators: all that a level holds against a Pod.

Source: ``k8s.io/pod-security-admission/policy/registry.go``.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pratique.pod_security.checks import (
    allow_privilege_escalation,
    app_armor_profile,
    capabilities_baseline,
    capabilities_restricted,
    host_namespaces,
    host_path_volumes,
    host_ports,
    host_probes_and_host_lifecycle,
    privileged,
    proc_mount,
    restricted_volumes,
    run_as_non_root,
    run_as_user,
    se_linux_options,
    seccomp_profile_baseline,
    seccomp_profile_restricted,
    sysctls,
    windows_host_process,
)
from pratique.pod_security.levels import Level, LevelVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.pod_security.checks.definitions import Check, Find, Revision
    from pratique.pod_security.findings import Finding
    from pratique.pod_security.pod_shapes import PodShape

CHECKS: tuple[Check, ...] = (
    app_armor_profile.CHECK,
    capabilities_baseline.CHECK,
    host_namespaces.CHECK,
    host_path_volumes.CHECK,
    host_ports.CHECK,
    host_probes_and_host_lifecycle.CHECK,
    privileged.CHECK,
    proc_mount.BASELINE,
    se_linux_options.CHECK,
    seccomp_profile_baseline.CHECK,
    sysctls.CHECK,
    windows_host_process.CHECK,
    allow_privilege_escalation.CHECK,
    capabilities_restricted.CHECK,
    proc_mount.RESTRICTED,
    restricted_volumes.CHECK,
    run_as_non_root.CHECK,
    run_as_user.CHECK,
    seccomp_profile_restricted.CHECK,
)
"""Every check, in the order in which findings are told: by level, and by id in each."""

NEWEST = max(revision.since for check in CHECKS for revision in check.revisions)
"""The last minor release that changed a check, which is what ``latest`` means."""


def evaluate(level_version: LevelVersion, pod: PodShape) -> tuple[Finding, ...]:
    """All that a level holds against a Pod; nothing where it may do what it does.

    Raises:
        MistypedError: a member of the Pod is of another type than its field.
    """
    minor = level_version.version.minor
    finders = _finders(level_version.level, NEWEST if minor is None else min(minor, NEWEST))
    return tuple([finding for find in finders if (finding := find(pod)) is not None])


@functools.cache
def _finders(level: Level, minor: int) -> tuple[Find, ...]:
    """What a level of a release looks at, worked out once."""
    if level is Level.PRIVILEGED:
        return ()
    current = tuple(_current(level, minor))
    overridden = {name for _, revision in current for name in revision.overrides}
    return tuple(revision.find for check, revision in current if check.id not in overridden)


def _current(level: Level, minor: int) -> Iterator[tuple[Check, Revision]]:
    """The checks that a level has in a release, each as it was then."""
    for check in CHECKS:
        revisions = [revision for revision in check.revisions if revision.since <= minor]
        if revisions and check.level.strictness <= level.strictness:
            yield check, revisions[-1]
