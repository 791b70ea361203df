"""Namespaces: their labels, and the Pods that a stricter level would refuse."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from pratique.admission.results import Allow, Answer, allow, deny, warn
from pratique.admission.reviews import Review
from pratique.apimachinery import statuses
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.requests import Operation
from pratique.controllers.pod_security.checks import MistypedError, join_reasons, read_pod
from pratique.controllers.pod_security.pods import deny_undecodable, evaluate
from pratique.controllers.pod_security.standards import PodSecurityLevel, is_labelled

if TYPE_CHECKING:
    from pratique.controllers.pod_security.configuration import ExemptNames, PodSecuritySettings
    from pratique.controllers.pod_security.standards import LabeledPolicy, LevelVersion, NamespacePolicy


@dataclasses.dataclass(frozen=True, slots=True)
class PodEvaluationLimits:
    """How many Pods are looked at."""

    pods: int = 3000
    """At most so many."""
    seconds: float = 1.0
    """And as many as can be looked at in that time."""
    clock: Callable[[], float] = time.monotonic
    """Tells the time, in seconds."""


DEFAULT_LIMITS = PodEvaluationLimits()
"""``defaultNamespaceMaxPodsToCheck`` and ``defaultNamespacePodCheckTimeout``."""

_PODS_PER_SLICE = 50
"""So many Pods are looked at before others get their turn: about a millisecond's work."""

_UNKNOWN_REASON = "unknown forbidden reason"


@dataclasses.dataclass(slots=True)
class _PodGroup:
    """The Pods that the same is wrong with."""

    first: str
    """The name that comes first in the alphabet."""
    count: int = 0

    def __str__(self) -> str:
        others = self.count - 1
        return f"{self.first} (and {others} other pod{'s'[: others > 1]})" if others else self.first


async def evaluate_pods_in_namespace(
    pods: Sequence[JSONObject],
    exempt: ExemptNames,
    enforce: LevelVersion,
    namespace: str,
    limits: PodEvaluationLimits = DEFAULT_LIMITS,
) -> tuple[str, ...]:
    """Say which Pods of a namespace a level would refuse; nothing where it would refuse none."""
    deadline = limits.clock() + limits.seconds
    every = _prioritize_pods(pods, exempt)
    chosen = every[: limits.pods]
    checked = len(chosen)
    groups: dict[str, _PodGroup] = {}
    for number, pod in enumerate(chosen, 1):
        _count_pod(groups, pod, enforce)
        if limits.clock() >= deadline:
            checked = number
            break
        if number % _PODS_PER_SLICE == 0:
            await asyncio.sleep(0)
    return tuple(_namespace_warnings(groups, enforce, namespace, checked, len(every)))


def _count_pod(groups: dict[str, _PodGroup], pod: JSONObject, enforce: LevelVersion) -> None:
    try:
        findings = evaluate(enforce, read_pod(pod))
        reason = join_reasons(findings)
    except MistypedError:
        reason = _UNKNOWN_REASON
    if reason:
        name = str(member(pod, "metadata", "name") or "")
        group = groups.setdefault(reason, _PodGroup(name))
        group.first = min(group.first, name)
        group.count += 1


def _namespace_warnings(
    groups: dict[str, _PodGroup], enforce: LevelVersion, namespace: str, checked: int, total: int
) -> Iterable[str]:
    if checked < total:
        yield (
            f"new PodSecurity enforce level only checked against the first {checked} of {total} existing pods"
        )
    if groups:
        yield f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{enforce}"'
    yield from sorted(f"{group}: {reason}" for reason, group in groups.items())


def _prioritize_pods(pods: Iterable[JSONObject], exempt: ExemptNames) -> list[JSONObject]:
    """Put the Pods that are replicas of one already there behind all others; leave out what is exempt."""
    first: list[JSONObject] = []
    replicas: list[JSONObject] = []
    seen: set[str] = set()
    for pod in pods:
        spec = member(pod, "spec")
        if isinstance(spec, dict) and exempt.has_runtime_class(spec):
            continue
        owner = _controller_uid(pod)
        (replicas if owner in seen else first).append(pod)
        if owner is not None:
            seen.add(owner)
    return first + replicas


def _controller_uid(pod: JSON) -> str | None:
    """The uid of what made a Pod; None where nothing did."""
    owners = member(pod, "metadata", "ownerReferences")
    for owner in owners if isinstance(owners, list) else ():
        if member(owner, "controller") is True:
            return str(member(owner, "uid") or "")
    return None


def validate_namespace(standards: PodSecuritySettings, review: Review) -> Answer | Awaitable[Answer]:
    """Refuse labels that cannot be read, and warn of what a new level means for the Pods that are there."""
    if review.subresource:
        return allow()
    wrong = _undecodable_namespace(review.object)
    if wrong:
        return deny_undecodable(review, wrong)
    new = standards.policies.of(review.object)
    if review.operation is Operation.CREATE:
        return (
            _deny_invalid_labels(review, new)
            if new.errors
            else _exempt_namespace_warning(standards, review, new.policy)
        )
    wrong = _undecodable_namespace(review.old_object)
    if wrong:
        # Kubernetes' own text has two spaces.
        return deny_undecodable(review, f" old {wrong}")
    return _validate_update(standards, review, new, standards.policies.of(review.old_object))


def _validate_update(
    standards: PodSecuritySettings, review: Review, new: LabeledPolicy, old: LabeledPolicy
) -> Answer | Awaitable[Answer]:
    if new.errors and new.errors != old.errors:
        return _deny_invalid_labels(review, new)
    if not _is_stricter(new.policy.enforce, old.policy.enforce):
        return allow()
    if _is_exempt(standards, review):
        return _exempt_namespace_warning(standards, review, new.policy)
    return _warn_about_pods(standards, review, new.policy.enforce)


def _undecodable_namespace(document: JSON) -> str:
    """What cannot be decoded; empty where the document is a Namespace."""
    if not isinstance(document, dict):
        return "object"
    return "" if document.get("kind", "Namespace") == "Namespace" else "namespace"


def _deny_invalid_labels(review: Review, labelled: LabeledPolicy) -> Answer:
    kind = review.kind
    return deny(status=statuses.invalid(kind.group, kind.kind, _namespace_name(review), labelled.errors))


def _is_stricter(new: LevelVersion, old: LevelVersion) -> bool:
    """Tell whether Pods may be refused that were not. Of different versions it is not known which is stricter."""
    if new == old or new.level is PodSecurityLevel.PRIVILEGED:
        return False
    return new.version != old.version or new.level.strictness > old.level.strictness


def _is_exempt(standards: PodSecuritySettings, review: Review) -> bool:
    # To an API server, a Namespace is in the namespace of its own name.
    return (review.namespace or _namespace_name(review)) in standards.exempt.namespaces


def _exempt_namespace_warning(
    standards: PodSecuritySettings, review: Review, policy: NamespacePolicy
) -> Allow:
    """Say that labels have no effect, where that is so."""
    if not _is_exempt(standards, review):
        return allow()
    if policy.is_fully_privileged or policy.is_equivalent(standards.policies.defaults):
        return allow()
    modes = {"enforce": policy.enforce, "audit": policy.audit, "warn": policy.warn}
    said = [
        f"{mode}={level_version}"
        for mode, level_version in modes.items()
        if level_version.level is not PodSecurityLevel.PRIVILEGED and is_labelled(review.object, mode)
    ]
    return warn(
        f'namespace "{_namespace_name(review)}" is exempt from Pod Security, and the policy ({", ".join(said)}) will be ignored'
    )


async def _warn_about_pods(standards: PodSecuritySettings, review: Review, enforce: LevelVersion) -> Answer:
    name = _namespace_name(review)
    pods = review.cluster.list("", "pods", name)
    return warn(*await evaluate_pods_in_namespace(pods, standards.exempt, enforce, name))


def _namespace_name(review: Review) -> str:
    return str(review.name or member(review.object, "metadata", "name") or "")
