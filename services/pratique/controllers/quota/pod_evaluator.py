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


def _pod_matches_scope(scope: ScopeRequirement, pod: JSON) -> bool:
    """Whether a Pod matches a scope.

    Raises:
        InputError: The scope's operator or values are invalid.
    """
    if scope.scope_name == resource_quotas.PRIORITY_CLASS:
        name = member(pod, "spec", "priorityClassName")
        return scope_selects(scope, [str(name)] if name else [])
    # The operator of the other scopes is ignored.
    holds = _SCOPE_PREDICATES.get(scope.scope_name)
    return holds is not None and holds(pod)


def is_terminating(pod: JSON) -> bool:
    """Whether a Pod has a deadline."""
    deadline = member(pod, "spec", "activeDeadlineSeconds")
    return isinstance(deadline, int) and deadline >= 0


def _has_cross_namespace_affinity(pod: JSON) -> bool:
    """Whether a Pod has affinity or anti-affinity to Pods in other namespaces."""
    return any(member(term, "namespaces") or _selects_namespaces(term) for term in _affinity_terms(pod))


def _selects_namespaces(term: JSON) -> bool:
    # An empty selector counts too: it selects all namespaces.
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
"""The prefix of a DeviceClass's implicit extended resource."""

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
"""The resources whose requests and limits are charged; requests are charged under two names."""

_MEASURED_NAMES = {_COUNT, _PODS, *_COMPUTE} | {
    f"{prefix}{name}" for prefix in (_REQUESTS, _LIMITS) for name in _COMPUTE
}

_REQUIRED_NAMES = {"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"}
"""What every container must specify if a quota names it. Kubernetes calls this a mistake, but keeps it."""


def pod_quota_usage(pod: JSON) -> ResourceList:
    """The usage of a Pod. A Pod that has ended only counts as an object.

    Raises:
        RefusalError: An amount is not a quantity; 400.
    """
    if is_ended(pod):
        return {_COUNT: ONE}
    return {_COUNT: ONE, **_charged_amounts(pod_usage(pod))}


def is_ended(pod: JSON) -> bool:
    """Whether a Pod has ended, or should have: it was deleted, and its grace period is over."""
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
        return False  # invalid times: a Pod that may still run is charged


def _charged_amounts(requirements: ResourceRequirements) -> dict[str, Quantity]:
    """The amounts of a Pod or container under the names that quotas use."""
    charges = {_PODS: ONE}
    for name in _COMPUTE:
        if name in requirements.requests:
            charges[name] = charges[f"{_REQUESTS}{name}"] = requirements.requests[name]
        if name in requirements.limits:
            charges[f"{_LIMITS}{name}"] = requirements.limits[name]
    for name, amount in requirements.requests.items():
        if name.startswith(_HUGE_PAGES):
            charges[name] = amount
        # Extended resources cannot be overcommitted, so a quota limits only their requests.
        if name.startswith((_HUGE_PAGES, _DEVICE_CLASS)) or quantities.is_extended_resource(name):
            charges[f"{_REQUESTS}{name}"] = amount
    return charges


def _measures_pods(name: str) -> bool:
    """Whether Pods use a resource that a quota names."""
    if name in _MEASURED_NAMES or name.startswith((_HUGE_PAGES, f"{_REQUESTS}{_HUGE_PAGES}")):
        return True
    if not name.startswith(_REQUESTS):
        return False
    return not quantities.is_native_resource(name) or name.startswith(f"{_REQUESTS}{_DEVICE_CLASS}")


def missing_requirements(required: Collection[str], pod: JSON) -> str:
    """Which containers lack required amounts: ``must specify cpu for: a,b; memory for: a``.

    A Pod that specifies its resources as a whole may leave them out of its containers.
    """
    own = pod_level_requirements(pod)
    required_names = _REQUIRED_NAMES.intersection(required)
    if own.requests or own.limits or not required_names:
        return ""
    without: dict[str, set[str]] = {}
    for container in (
        *container_requirements(pod, "containers"),
        *container_requirements(pod, "initContainers"),
    ):
        for name in required_names - _charged_amounts(container.requirements).keys():
            without.setdefault(name, set()).add(container.name)
    if not without:
        return ""
    texts = (f"{name} for: {','.join(sorted(without[name]))}" for name in sorted(without))
    return f"must specify {'; '.join(texts)}"


def _handles_pod(review: Review) -> bool:
    """Charge new Pods, resized Pods, and Pods whose scope changes."""
    if review.subresource == "resize":
        return review.operation is Operation.UPDATE
    if review.subresource or review.operation is Operation.CREATE:
        return not review.subresource
    new, old = review.object, review.old_object
    return pod_spec.is_pod(new) and pod_spec.is_pod(old) and is_terminating(new) != is_terminating(old)


PODS = QuotaEvaluator(
    group="",
    resource="pods",
    handles=_handles_pod,
    is_kind=pod_spec.is_pod,
    matches_resource=_measures_pods,
    usage=pod_quota_usage,
    matches_scope=_pod_matches_scope,
    missing_constraints=missing_requirements,
)
