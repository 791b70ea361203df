"""Checks: whether a request fits the quotas of its namespace, and what to charge to which quota.

Source: ``k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import InputError, RefusalError
from pratique.apimachinery.json_values import JSONObject, member
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.statuses import go_quoted, qualified_resource
from pratique.cluster.store import Cluster
from pratique.controllers.quota import evaluators, pod_evaluator
from pratique.controllers.quota.evaluators import COUNTED_WITHOUT_PREFIX, object_count, parse_count_name
from pratique.controllers.quota.resource_quotas import (
    ZERO,
    add,
    exceeding,
    format_amounts,
    format_names,
    format_scopes,
    increase,
    limited_names,
    limited_scopes,
    mask,
    read_quota,
    without_zeros,
)
from pratique.pods.resource_requirements import ResourceList

if TYPE_CHECKING:
    from pratique.controllers.quota.evaluators import QuotaEvaluator
    from pratique.controllers.quota.resource_quotas import LimitedResource, Quota, ScopeRequirement

IGNORED_RESOURCES = frozenset(
    {
        ("", "bindings"),
        ("", "componentstatuses"),
        ("", "events"),
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
        ("events.k8s.io", "events"),
    }
)
"""Resources that are never charged: events, and requests that are answered without storing an object."""

_EVALUATORS: Mapping[tuple[str, str], QuotaEvaluator] = {
    (evaluator.group, evaluator.resource): evaluator
    for evaluator in (
        pod_evaluator.PODS,
        evaluators.SERVICES,
        evaluators.VOLUME_CLAIMS,
        evaluators.DEVICE_CLAIMS,
        *(object_count("", resource) for resource in COUNTED_WITHOUT_PREFIX),
    )
}


def evaluator_of(group: str, resource: str) -> QuotaEvaluator:
    """The evaluator of a resource; resources without one of their own are only counted."""
    return _EVALUATORS.get((group, resource)) or object_count(group, resource)


def evaluators_of(names: Iterable[str]) -> tuple[QuotaEvaluator, ...]:
    """All evaluators that measure any of the names in a quota."""
    evaluators_by_resource = dict(_EVALUATORS)
    all_names = tuple(names)
    for resource in map(parse_count_name, all_names):
        if resource is not None and resource not in IGNORED_RESOURCES:
            evaluators_by_resource.setdefault(resource, object_count(*resource))
    return tuple(
        evaluator
        for evaluator in evaluators_by_resource.values()
        if any(map(evaluator.matches_resource, all_names))
    )


def usage_of(quota: JSONObject, cluster: Cluster) -> ResourceList:
    """Count what a cluster's objects use of a ResourceQuota.

    The result has an amount for every resource of the quota that an evaluator measures.

    Raises:
        InputError: An amount in the quota or in an object is not a quantity; the text names it.
    """
    return count_usage(read_quota(quota), cluster)


def starting_usage(quota: Quota, cluster: Cluster) -> ResourceList:
    """The usage before the first charge: the quota's status, or a count of the objects if it has none.

    Raises:
        InputError: As in :func:`usage_of`.
    """
    return count_usage(quota, cluster) if quota.used is None else quota.used


def count_usage(quota: Quota, cluster: Cluster) -> ResourceList:
    """Count what a cluster's objects use of a parsed quota; see :func:`usage_of`.

    Raises:
        InputError: An amount in an object is not a quantity; the text names it.
    """
    used: ResourceList = {}
    for evaluator in evaluators_of(quota.hard):
        names = [name for name in quota.hard if evaluator.matches_resource(name)]
        used = add(used, dict.fromkeys(names, ZERO))
        for stored in _matching_objects(quota, evaluator, cluster):
            used = add(used, mask(_object_usage(evaluator, stored), names))
    return used


def _matching_objects(quota: Quota, evaluator: QuotaEvaluator, cluster: Cluster) -> Iterator[JSONObject]:
    """The objects that match all scopes of a quota; none if a scope is malformed."""
    for stored in cluster.list(evaluator.group, evaluator.resource, quota.namespace):
        try:
            of_scopes = evaluator.matching_scopes(quota.scopes, stored)
        except InputError:
            return
        if len(of_scopes) == len(quota.scopes):
            yield stored


def _object_usage(evaluator: QuotaEvaluator, stored: JSONObject) -> ResourceList:
    try:
        return evaluator.usage(stored)
    except RefusalError as error:
        metadata = stored["metadata"]
        where = f"{metadata.get('namespace')}/{metadata.get('name')}"
        collection = qualified_resource(evaluator.group, evaluator.resource)
        raise InputError(f"{collection} {go_quoted(where)}: {error}") from None


class QuotaDelta(msgspec.Struct, frozen=True):
    """What a request adds to the usage of a quota, or frees."""

    quota: Quota
    amounts: ResourceList
    """Positive amounts of resources that the quota limits."""


class _QuotaCoverage(msgspec.Struct, frozen=True):
    """How the quotas of a namespace cover an object."""

    matching: list[Quota]
    """The quotas to charge."""
    names: set[str]
    """The resources that they limit."""
    scopes: list[ScopeRequirement]
    """The scopes of any quota that match the object, even if the quota as a whole does not."""


def quota_deltas(
    review: Review, evaluator: QuotaEvaluator, quotas: Sequence[Quota], limited: Sequence[LimitedResource]
) -> tuple[QuotaDelta, ...]:
    """Compute what a request adds to which quotas, in their order.

    Raises:
        RefusalError: The request is not allowed, whatever the current usage.
    """
    usage = evaluator.usage(review.object)
    wanted_scopes = limited_scopes(limited, evaluator, review.object)
    coverage = _quota_coverage(review, evaluator, quotas)
    negative = [name for name, amount in usage.items() if amount.sign < 0]
    if negative:
        raise _forbidden(review, f"quota usage is negative for resource(s): {format_names(negative)}")
    changes = _UsageChange.for_review(review, evaluator, usage)
    deltas = [(quota, without_zeros(changes.for_quota(quota))) for quota in coverage.matching]
    # A request that adds nothing is admitted even if its resources should be covered and are not.
    if not any(amounts for _, amounts in deltas) and (deltas or not without_zeros(changes.uncovered)):
        return ()
    _check_covered(review, coverage, limited_names(limited, evaluator, usage), wanted_scopes)
    limits = (QuotaDelta(quota, mask(amounts, quota.hard.keys())) for quota, amounts in deltas)
    return tuple(delta for delta in limits if delta.amounts)


def usage_after(
    review: Review, deltas: Sequence[QuotaDelta], usages: Sequence[ResourceList]
) -> list[ResourceList]:
    """Compute the usage of each quota after a request is charged.

    Args:
        review: The request.
        deltas: What it adds.
        usages: The current usage of each of their quotas.

    Raises:
        RefusalError: It exceeds a quota.
    """
    after = [add(used, delta.amounts) for delta, used in zip(deltas, usages, strict=True)]
    if review.subresource == "status":
        # Usage in a status update is already real, so it is recorded even if it exceeds the quota.
        return list(after)
    for delta, used, total in zip(deltas, usages, after, strict=True):
        names = exceeding(mask(total, delta.amounts.keys()), delta.quota.hard)
        if names:
            raise _forbidden(review, _exceeded_message(delta, used, names))
    return list(after)


def freed_deltas(
    review: Review, evaluator: QuotaEvaluator, quotas: Sequence[Quota]
) -> tuple[QuotaDelta, ...]:
    """Compute what an executed request frees: what its object used of each quota and no longer does.

    Admission never credits a quota; Kubernetes' quota controller finds this when it recounts.

    Raises:
        RefusalError: An amount is not a quantity, or the scopes of a quota are malformed.
    """
    deltas = []
    for quota in quotas:
        before = _usage_in_quota(_old_review(review), evaluator, quota)
        after = {} if review.operation is Operation.DELETE else _usage_in_quota(review, evaluator, quota)
        amounts = without_zeros(increase(before, after))
        if amounts:
            deltas.append(QuotaDelta(quota, amounts))
    return tuple(deltas)


def _usage_in_quota(review: Review, evaluator: QuotaEvaluator, quota: Quota) -> ResourceList:
    if len(_matching_scopes(evaluator, quota, review)) != len(quota.scopes):
        return {}
    return mask(
        evaluator.usage(review.object), [name for name in quota.hard if evaluator.matches_resource(name)]
    )


def _exceeded_message(delta: QuotaDelta, used: ResourceList, names: set[str]) -> str:
    return (
        f"exceeded quota: {delta.quota.name}, requested: {format_amounts(mask(delta.amounts, names))},"
        f" used: {format_amounts(mask(used, names))}, limited: {format_amounts(mask(delta.quota.hard, names))}"
    )


def _quota_coverage(review: Review, evaluator: QuotaEvaluator, quotas: Sequence[Quota]) -> _QuotaCoverage:
    coverage = _QuotaCoverage([], set(), [])
    for quota in quotas:
        of_scopes = _matching_scopes(evaluator, quota, review)
        coverage.scopes.extend(of_scopes)
        names = [name for name in quota.hard if evaluator.matches_resource(name)]
        if names and len(of_scopes) == len(quota.scopes):
            _check_measurable(review, evaluator, quota, names)
            coverage.matching.append(quota)
            coverage.names.update(names)
    return coverage


def _matching_scopes(evaluator: QuotaEvaluator, quota: Quota, review: Review) -> list[ScopeRequirement]:
    try:
        return evaluator.matching_scopes(quota.scopes, review.object)
    except InputError as error:
        text = f"error matching scopes of quota {quota.name}, err: {error}"
        raise RefusalError(statuses.plain_error(text)) from None


def _check_measurable(review: Review, evaluator: QuotaEvaluator, quota: Quota, names: Sequence[str]) -> None:
    missing = evaluator.missing_constraints(names, review.object)
    if missing:
        raise _forbidden(review, f"failed quota: {quota.name}: {missing}")
    # Until the quota controller has counted a resource, nobody knows how much is left.
    if quota.used is not None and any(name not in quota.used for name in names):
        text = f"status unknown for quota: {quota.name}, resources: {format_names(names)}"
        raise _forbidden(review, text)


def _check_covered(
    review: Review, coverage: _QuotaCoverage, names: set[str], scopes: Sequence[ScopeRequirement]
) -> None:
    """Deny resources that are limited by default and not covered by any quota."""
    uncovered = names - coverage.names
    if uncovered:
        raise _forbidden(review, f"insufficient quota to consume: {format_names(uncovered)}")
    covered = {scope.scope_name for scope in coverage.scopes}
    left = [scope for scope in scopes if scope.scope_name not in covered]
    if left:
        text = f"insufficient quota to match these scopes: {format_scopes(left)}"
        raise RefusalError(statuses.plain_error(text))


class _UsageChange(msgspec.Struct, frozen=True):
    """How a request changes the usage of its object."""

    review: Review
    evaluator: QuotaEvaluator
    whole: ResourceList
    """What the object uses."""
    growth: ResourceList | None
    """The increase since the old object; None if the old object cannot have been charged."""

    @classmethod
    def for_review(cls, review: Review, evaluator: QuotaEvaluator, usage: ResourceList) -> _UsageChange:
        growth = None
        if review.operation is Operation.UPDATE:
            if review.old_object is None:
                text = "unable to get previous usage since prior version of object was not found"
                raise _forbidden(review, text)
            # An object without a version was never stored: the update creates it.
            if member(review.old_object, "metadata", "resourceVersion"):
                growth = increase(usage, evaluator.usage(review.old_object))
        return cls(review, evaluator, usage, growth)

    @property
    def uncovered(self) -> ResourceList:
        """The change that counts if no quota matches."""
        return self.whole if self.growth is None else self.growth

    def for_quota(self, quota: Quota) -> ResourceList:
        """The change that counts for a quota: the whole usage if the quota did not match the old object."""
        if self.growth is None:
            return self.whole
        matched_before = len(_matching_scopes(self.evaluator, quota, _old_review(self.review))) == len(
            quota.scopes
        )
        return self.growth if matched_before else self.whole


def _old_review(review: Review) -> Review:
    return review.with_object(review.old_object_document)


def _forbidden(review: Review, text: str) -> RefusalError:
    return RefusalError(statuses.admission_forbidden(review, text))
