"""Namespaces: validates their labels, and warns about existing Pods that a stricter level would deny.

Source: ``k8s.io/pod-security-admission/admission/admission.go`` ``ValidateNamespace``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from pratique.admission.results import Allow, Answer, allow, deny, warn
from pratique.admission.reviews import Review
from pratique.apimachinery import statuses
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.requests import Operation
from pratique.controllers.pod_security.checks import MistypedError, join_reasons, read_pod
from pratique.controllers.pod_security.pods import deny_undecodable, evaluate
from pratique.controllers.pod_security.standards import PodSecurityLevel, is_labeled

if TYPE_CHECKING:
    from pratique.controllers.pod_security.configuration import ExemptNames, PodSecuritySettings
    from pratique.controllers.pod_security.standards import LabeledPolicy, LevelVersion, NamespacePolicy


class PodEvaluationLimits(msgspec.Struct, frozen=True):
    """Limits on the evaluation of a namespace's existing Pods."""

    pods: int = 3000
    """At most this many Pods are evaluated."""
    seconds: float = 1.0
    """The evaluation stops after this time."""
    clock: Callable[[], float] = time.monotonic
    """The time in seconds."""


DEFAULT_LIMITS = PodEvaluationLimits()
"""``defaultNamespaceMaxPodsToCheck`` and ``defaultNamespacePodCheckTimeout``."""

_PODS_PER_SLICE = 50
"""How many Pods are evaluated before other tasks run: about a millisecond of work."""

_UNKNOWN_REASON = "unknown forbidden reason"


class _PodGroup(msgspec.Struct):
    """Pods with the same violations."""

    first: str
    """The first of their names in alphabetical order."""
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
    """The warnings about existing Pods that a level would deny; empty if it would deny none."""
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
        violations = evaluate(enforce, read_pod(pod))
        reason = join_reasons(violations)
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
    """Sort further replicas of a controller behind all other Pods; drop exempt Pods."""
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
    """The uid of the Pod's controller; None if it has none."""
    owners = member(pod, "metadata", "ownerReferences")
    for owner in owners if isinstance(owners, list) else ():
        if member(owner, "controller") is True:
            return str(member(owner, "uid") or "")
    return None


def validate_namespace(settings: PodSecuritySettings, review: Review) -> Answer | Awaitable[Answer]:
    """Deny invalid labels, and warn about existing Pods that a stricter level would deny."""
    if review.subresource:
        return allow()
    undecoded = _undecodable_namespace(review.object)
    if undecoded:
        return deny_undecodable(review, undecoded)
    new = settings.policies.policy_of(review.object)
    if review.operation is Operation.CREATE:
        return (
            _deny_invalid_labels(review, new)
            if new.errors
            else _exempt_namespace_warning(settings, review, new.policy)
        )
    undecoded = _undecodable_namespace(review.old_object)
    if undecoded:
        # Kubernetes' own text has two spaces.
        return deny_undecodable(review, f" old {undecoded}")
    return _validate_update(settings, review, new, settings.policies.policy_of(review.old_object))


def _validate_update(
    settings: PodSecuritySettings, review: Review, new: LabeledPolicy, old: LabeledPolicy
) -> Answer | Awaitable[Answer]:
    if new.errors and new.errors != old.errors:
        return _deny_invalid_labels(review, new)
    if not _is_stricter(new.policy.enforce, old.policy.enforce):
        return allow()
    if _is_exempt(settings, review):
        return _exempt_namespace_warning(settings, review, new.policy)
    return _warn_about_pods(settings, review, new.policy.enforce)


def _undecodable_namespace(document: JSON) -> str:
    """The part of the request that cannot be decoded; empty if the document is a Namespace."""
    if not isinstance(document, dict):
        return "object"
    return "" if document.get("kind", "Namespace") == "Namespace" else "namespace"


def _deny_invalid_labels(review: Review, labeled: LabeledPolicy) -> Answer:
    kind = review.kind
    return deny(status=statuses.invalid(kind.group, kind.kind, _namespace_name(review), labeled.errors))


def _is_stricter(new: LevelVersion, old: LevelVersion) -> bool:
    """Whether the new level may deny Pods that the old one allowed; versions cannot be compared, so another one may."""
    if new == old or new.level is PodSecurityLevel.PRIVILEGED:
        return False
    return new.version != old.version or new.level.strictness > old.level.strictness


def _is_exempt(settings: PodSecuritySettings, review: Review) -> bool:
    # To an API server, a Namespace is in the namespace of its own name.
    return (review.namespace or _namespace_name(review)) in settings.exempt.namespaces


def _exempt_namespace_warning(
    settings: PodSecuritySettings, review: Review, policy: NamespacePolicy
) -> Allow:
    """Warn if the labels have no effect because the namespace is exempt."""
    if not _is_exempt(settings, review):
        return allow()
    if policy.is_fully_privileged or policy.is_equivalent(settings.policies.defaults):
        return allow()
    modes = {"enforce": policy.enforce, "audit": policy.audit, "warn": policy.warn}
    ignored = [
        f"{mode}={level_version}"
        for mode, level_version in modes.items()
        if level_version.level is not PodSecurityLevel.PRIVILEGED and is_labeled(review.object, mode)
    ]
    name, labels = _namespace_name(review), ", ".join(ignored)
    return warn(f'namespace "{name}" is exempt from Pod Security, and the policy ({labels}) will be ignored')


async def _warn_about_pods(settings: PodSecuritySettings, review: Review, enforce: LevelVersion) -> Answer:
    name = _namespace_name(review)
    pods = review.cluster.list("", "pods", name)
    return warn(*await evaluate_pods_in_namespace(pods, settings.exempt, enforce, name))


def _namespace_name(review: Review) -> str:
    return str(review.name or member(review.object, "metadata", "name") or "")
