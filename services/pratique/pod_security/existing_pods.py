"""Existing Pods: which of them do what a stricter level of their namespace forbids.

Source: ``k8s.io/pod-security-admission/admission/admission.go`` ``EvaluatePodsInNamespace``.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import TYPE_CHECKING

from pratique.json_values import member
from pratique.pod_security.evaluators import evaluate
from pratique.pod_security.findings import reasons
from pratique.pod_security.pod_shapes import MistypedError, read_pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pratique.json_values import JSON, JSONObject
    from pratique.pod_security.exemptions import Exempt
    from pratique.pod_security.levels import LevelVersion


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """How many Pods are looked at."""

    pods: int = 3000
    """At most so many."""
    seconds: float = 1.0
    """And as many as can be looked at in that time."""
    clock: Callable[[], float] = time.monotonic
    """Tells the time, in seconds."""


KUBERNETES = Limits()
"""``defaultNamespaceMaxPodsToCheck`` and ``defaultNamespacePodCheckTimeout``."""

_AT_ONCE = 50
"""So many Pods are looked at before others get their turn: about a millisecond's work."""

_UNKNOWN = "unknown forbidden reason"


@dataclasses.dataclass(slots=True)
class _Group:
    """The Pods that the same is wrong with."""

    first: str
    """The name that comes first in the alphabet."""
    count: int = 0

    def __str__(self) -> str:
        others = self.count - 1
        return f"{self.first} (and {others} other pod{'s'[: others > 1]})" if others else self.first


async def warnings_of(
    pods: Sequence[JSONObject],
    exempt: Exempt,
    enforce: LevelVersion,
    namespace: str,
    limits: Limits = KUBERNETES,
) -> tuple[str, ...]:
    """Say which Pods of a namespace a level would refuse; nothing where it would refuse none."""
    deadline = limits.clock() + limits.seconds
    every = _most_telling_first(pods, exempt)
    chosen = every[: limits.pods]
    checked = len(chosen)
    groups: dict[str, _Group] = {}
    for number, pod in enumerate(chosen, 1):
        _add(groups, pod, enforce)
        if limits.clock() >= deadline:
            checked = number
            break
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)
    return tuple(_told(groups, enforce, namespace, checked, len(every)))


def _add(groups: dict[str, _Group], pod: JSONObject, enforce: LevelVersion) -> None:
    try:
        findings = evaluate(enforce, read_pod(pod))
        reason = reasons(findings)
    except MistypedError:
        reason = _UNKNOWN
    if reason:
        name = str(member(pod, "metadata", "name") or "")
        group = groups.setdefault(reason, _Group(name))
        group.first = min(group.first, name)
        group.count += 1


def _told(
    groups: dict[str, _Group], enforce: LevelVersion, namespace: str, checked: int, total: int
) -> Iterable[str]:
    if checked < total:
        yield (
            f"new PodSecurity enforce level only checked against the first {checked} of {total} existing pods"
        )
    if groups:
        yield f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{enforce}"'
    yield from sorted(f"{group}: {reason}" for reason, group in groups.items())


def _most_telling_first(pods: Iterable[JSONObject], exempt: Exempt) -> list[JSONObject]:
    """Put the Pods that are replicas of one already there behind all others; leave out what is exempt."""
    first: list[JSONObject] = []
    replicas: list[JSONObject] = []
    seen: set[str] = set()
    for pod in pods:
        spec = member(pod, "spec")
        if isinstance(spec, dict) and exempt.has_runtime_class(spec):
            continue
        owner = _controller(pod)
        (replicas if owner in seen else first).append(pod)
        if owner is not None:
            seen.add(owner)
    return first + replicas


def _controller(pod: JSON) -> str | None:
    """The uid of what made a Pod; None where nothing did."""
    owners = member(pod, "metadata", "ownerReferences")
    for owner in owners if isinstance(owners, list) else ():
        if member(owner, "controller") is True:
            return str(member(owner, "uid") or "")
    return None
