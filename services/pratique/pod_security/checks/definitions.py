"""What a check is: what it forbids, from which level on, and how that changed from release to release.

Source: ``k8s.io/pod-security-admission/policy/checks.go``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from pratique.pod_security.findings import Finding
from pratique.pod_security.pod_shapes import PodShape

if TYPE_CHECKING:
    from pratique.pod_security.levels import Level

Find: TypeAlias = Callable[[PodShape], Finding | None]
"""Looks at a Pod; None where it has nothing against it. Raises MistypedError where it cannot read it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Revision:
    """A check as of some release."""

    since: int
    """The first minor release of Kubernetes 1 whose standards have it so."""
    find: Find
    overrides: tuple[str, ...] = ()
    """The checks of ``baseline`` that it takes the place of."""


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """One thing that Pods may not do."""

    id: str
    """Checks are reported in the order of their ids, those of ``baseline`` first."""
    level: Level
    """``baseline`` or ``restricted``; what is forbidden in the former is so in the latter."""
    revisions: tuple[Revision, ...]
    """In the order of releases. Before the first there is no such check."""


def unless_windows(find: Find) -> Find:
    """Let Pods pass that say that they are for Windows, where validation refuses such fields."""

    def found(pod: PodShape) -> Finding | None:
        return None if pod.is_windows else find(pod)

    return found


def unless_own_users(find: Find) -> Find:
    """Let Pods pass that have user namespaces of their own."""

    def found(pod: PodShape) -> Finding | None:
        return None if pod.has_own_users else find(pod)

    return found
