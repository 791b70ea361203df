"""The evaluator for Pods: how many there are, what they request, and which scopes they match.

Source: ``pkg/quota/v1/evaluator/core/pods.go``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterator, Mapping

from pratique.admission.reviews import Review
from pratique.apimachinery import quantities
from pratique.apimachinery.json_values import JSON, member
from pratique.apimachinery.quantities import Quantity
from pratique.apimachinery.requests import Operation
from pratique.controllers.quota import resource_quotas
from pratique.controllers.quota.evaluators import QuotaEvaluator, count_name
from pratique.controllers.quota.resource_quotas import ONE, ScopeRequirement, scope_selects
from pratique.pods import pod_spec
from pratique.pods.pod_usage import pod_level_requirements, pod_usage
from pratique.pods.resource_requirements import (
    ResourceList,
    ResourceRequirements,
    container_requirements,
    is_best_effort,
)

_AFFINITIES = ("podAffinity", "podAntiAffinity")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def pod_matches_scope(scope: ScopeRequirement, pod: JSON) -> bool:
    """Tell whether a Pod is of a scope.

    Raises:
        InputError: the scope's operator or values are wrong.
    """
    if scope.scope_name == resource_quotas.PRIORITY_CLASS:
        name = member(pod, "spec", "priorityClassName")
        return scope_selects(scope, [str(name)] if name else [])
    # The operator of the others is not looked at.
    holds = _SCOPE_PREDICATES.get(scope.scope_name)
    return holds is not None and holds(pod)


def is_terminating(pod: JSON) -> bool:
    """Tell whether a Pod has a deadline."""
    deadline = member(pod, "spec", "activeDeadlineSeconds")
    return isinstance(deadline, int) and deadline >= 0


def _has_cross_namespace_affinity(pod: JSON) -> bool:
    """Tell whether a Pod wants to be near Pods of other namespaces, or far from them."""
    return any(member(term, "namespaces") or _selects_namespaces(term) for term in _affinity_terms(pod))


def _selects_namespaces(term: JSON) -> bool:
    # The empty selector counts: it is of all namespaces.
    return member(term, "namespaceSelector") is not None


def _affinity_terms(pod: JSON) -> Iterator[JSON]:
    for affinity in _AFFINITIES:
        yield from _list(member(pod, "spec", "affinity", affinity, _REQUIRED))
        for weighted in _list(member(pod, "spec", "affinity", affinity, _PREFERRED)):
            yield member(weighted, "podAffinityTerm")


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


_SCOPE_PREDICATES: Mapping[str, Callable[[JSON], bool]] = {
    resource_quotas.TERMINATING: is_terminating,
    resource_quotas.NOT_TERMINATING: lambda pod: not is_terminating(pod),
    resource_quotas.BEST_EFFORT: is_best_effort,
    resource_quotas.NOT_BEST_EFFORT: lambda pod: not is_best_effort(pod),
    resource_quotas.CROSS_NAMESPACE_POD_AFFINITY: _has_cross_namespace_affinity,
}


_COUNT = count_name("", "pods")
_PODS = "pods"
_REQUESTS = "requests."
_LIMITS = "limits."
_HUGE_PAGES = "hugepages-"
_DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"
"""Before the name of a DeviceClass: an extended resource that every class has."""

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
"""What requests and limits are charged of, the requests under two names."""

_MEASURED_NAMES = {_COUNT, _PODS, *_COMPUTE} | {
    f"{prefix}{name}" for prefix in (_REQUESTS, _LIMITS) for name in _COMPUTE
}

_REQUIRED_NAMES = {"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"}
"""What every container must specify where a quota names it; Kubernetes calls that a mistake, and keeps it."""


def pod_quota_usage(pod: JSON) -> ResourceList:
    """What a Pod uses. One that is over is an object like any other, and nothing more.

    Raises:
        RefusalError: an amount is no quantity; 400.
    """
    if is_ended(pod):
        return {_COUNT: ONE}
    return {_COUNT: ONE, **_resource_names(pod_usage(pod))}


def is_ended(pod: JSON) -> bool:
    """Tell whether a Pod has ended, or should have: it was deleted, and its time to end has passed."""
    if member(pod, "status", "phase") in {"Succeeded", "Failed"}:
        return True
    deleted = member(pod, "metadata", "deletionTimestamp")
    grace = member(pod, "metadata", "deletionGracePeriodSeconds")
    if not isinstance(deleted, str) or not isinstance(grace, int):
        return False
    try:
        end = dt.datetime.fromisoformat(deleted) + dt.timedelta(seconds=grace)
        return dt.datetime.now(dt.UTC) > end
    except (ValueError, OverflowError, TypeError):
        return False  # no moment at all: what cannot be told apart from a Pod that runs is charged


def _resource_names(demand: ResourceRequirements) -> dict[str, Quantity]:
    """The names under which what a Pod or container asks for is charged."""
    charges = {_PODS: ONE}
    for name in _COMPUTE:
        if name in demand.requests:
            charges[name] = charges[f"{_REQUESTS}{name}"] = demand.requests[name]
        if name in demand.limits:
            charges[f"{_LIMITS}{name}"] = demand.limits[name]
    for name, amount in demand.requests.items():
        if name.startswith(_HUGE_PAGES):
            charges[name] = amount
        if name.startswith((_HUGE_PAGES, _DEVICE_CLASS)) or quantities.is_extended_resource(name):
            charges[f"{_REQUESTS}{name}"] = amount
    return charges


def measures_pods(name: str) -> bool:
    """Tell whether a quota's resource is used by Pods."""
    if name in _MEASURED_NAMES or name.startswith((_HUGE_PAGES, f"{_REQUESTS}{_HUGE_PAGES}")):
        return True
    if not name.startswith(_REQUESTS):
        return False
    return not quantities.is_native_resource(name) or name.startswith(f"{_REQUESTS}{_DEVICE_CLASS}")


def missing_requirements(required: Collection[str], pod: JSON) -> str:
    """Say which containers do not specify what they must: ``must specify cpu for: a,b; memory for: a``.

    A Pod that says what it needs as a whole may leave that to itself.
    """
    own = pod_level_requirements(pod)
    wanted = _REQUIRED_NAMES.intersection(required)
    if own.requests or own.limits or not wanted:
        return ""
    without: dict[str, set[str]] = {}
    for container in (
        *container_requirements(pod, "containers"),
        *container_requirements(pod, "initContainers"),
    ):
        for name in wanted - _resource_names(container.requirements).keys():
            without.setdefault(name, set()).add(container.name)
    if not without:
        return ""
    texts = (f"{name} for: {','.join(sorted(without[name]))}" for name in sorted(without))
    return f"must specify {'; '.join(texts)}"


def _is_charged(review: Review) -> bool:
    """Tell of a new Pod, of one that is resized, and of one that comes to be of another scope."""
    if review.subresource == "resize":
        return review.operation is Operation.UPDATE
    if review.subresource or review.operation is Operation.CREATE:
        return not review.subresource
    new, old = review.object, review.old_object
    return pod_spec.is_pod(new) and pod_spec.is_pod(old) and is_terminating(new) != is_terminating(old)


PODS = QuotaEvaluator(
    group="",
    resource="pods",
    is_charged=_is_charged,
    is_kind=pod_spec.is_pod,
    measures=measures_pods,
    usage=pod_quota_usage,
    fits=pod_matches_scope,
    missing=missing_requirements,
)
