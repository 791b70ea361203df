"""Namespaces: their labels, and the Pods that a stricter level would refuse."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import TYPE_CHECKING

from pratique.admission.answers import Allow, Answer, allow, deny, warn
from pratique.admission.reviews import Operation, Review
from pratique.apimachinery import statuses
from pratique.apimachinery.json_values import JSON, member
from pratique.controllers.pod_security.checks import reasons
from pratique.controllers.pod_security.evaluation import evaluate, undecodable
from pratique.controllers.pod_security.pod_shapes import MistypedError, read_pod
from pratique.controllers.pod_security.standards import Level, is_labelled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from pratique.apimachinery.json_values import JSONObject
    from pratique.controllers.pod_security.configuration import Exempt, Standards
    from pratique.controllers.pod_security.standards import Labelled, LevelVersion, Policy


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


def validate_namespace(standards: Standards, review: Review) -> Answer | Awaitable[Answer]:
    """Refuse labels that cannot be read, and warn of what a new level means for the Pods that are there."""
    if review.subresource:
        return allow()
    wrong = _not_a_namespace(review.object)
    if wrong:
        return undecodable(review, wrong)
    new = standards.policies.of(review.object)
    if review.operation is Operation.CREATE:
        return _invalid(review, new) if new.errors else _warn_if_exempt(standards, review, new.policy)
    wrong = _not_a_namespace(review.old_object)
    if wrong:
        # Kubernetes' own text has two spaces.
        return undecodable(review, f" old {wrong}")
    return _updated(standards, review, new, standards.policies.of(review.old_object))


def _updated(
    standards: Standards, review: Review, new: Labelled, old: Labelled
) -> Answer | Awaitable[Answer]:
    if new.errors and new.errors != old.errors:
        return _invalid(review, new)
    if not _is_stricter(new.policy.enforce, old.policy.enforce):
        return allow()
    if _is_exempt(standards, review):
        return _warn_if_exempt(standards, review, new.policy)
    return _warn_of_pods(standards, review, new.policy.enforce)


def _not_a_namespace(document: JSON) -> str:
    """What cannot be decoded; empty where the document is a Namespace."""
    if not isinstance(document, dict):
        return "object"
    return "" if document.get("kind", "Namespace") == "Namespace" else "namespace"


def _invalid(review: Review, labelled: Labelled) -> Answer:
    kind = review.kind
    return deny(status=statuses.invalid(kind.group, kind.kind, _name(review), labelled.errors))


def _is_stricter(new: LevelVersion, old: LevelVersion) -> bool:
    """Tell whether Pods may be refused that were not. Of different versions it is not known which is stricter."""
    if new == old or new.level is Level.PRIVILEGED:
        return False
    return new.version != old.version or new.level.strictness > old.level.strictness


def _is_exempt(standards: Standards, review: Review) -> bool:
    # To an API server, a Namespace is in the namespace of its own name.
    return (review.namespace or _name(review)) in standards.exempt.namespaces


def _warn_if_exempt(standards: Standards, review: Review, policy: Policy) -> Allow:
    """Say that labels have no effect, where that is so."""
    if not _is_exempt(standards, review):
        return allow()
    if policy.is_fully_privileged or policy.is_equivalent(standards.policies.defaults):
        return allow()
    modes = {"enforce": policy.enforce, "audit": policy.audit, "warn": policy.warn}
    said = [
        f"{mode}={level_version}"
        for mode, level_version in modes.items()
        if level_version.level is not Level.PRIVILEGED and is_labelled(review.object, mode)
    ]
    return warn(
        f'namespace "{_name(review)}" is exempt from Pod Security, and the policy ({", ".join(said)}) will be ignored'
    )


async def _warn_of_pods(standards: Standards, review: Review, enforce: LevelVersion) -> Answer:
    name = _name(review)
    pods = review.cluster.list("", "pods", name)
    return warn(*await warnings_of(pods, standards.exempt, enforce, name))


def _name(review: Review) -> str:
    return str(review.name or member(review.object, "metadata", "name") or "")
