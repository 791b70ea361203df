"""Checks: whether a request fits into the quotas of its namespace, and what is charged against which."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

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
"""Collections that are never charged: events, and what is answered and not stored."""

_EVALUATORS: Mapping[tuple[str, str], QuotaEvaluator] = {
    (each.group, each.resource): each
    for each in (
        pod_evaluator.PODS,
        evaluators.SERVICES,
        evaluators.VOLUME_CLAIMS,
        evaluators.DEVICE_CLAIMS,
        *(object_count("", resource) for resource in COUNTED_WITHOUT_PREFIX),
    )
}


def evaluator_of(group: str, resource: str) -> QuotaEvaluator:
    """The evaluator of a collection; one that only counts where nothing else is known of it."""
    return _EVALUATORS.get((group, resource)) or object_count(group, resource)


def evaluators_of(names: Iterable[str]) -> tuple[QuotaEvaluator, ...]:
    """All evaluators that measure any of the resources that a quota names."""
    found = dict(_EVALUATORS)
    kept = tuple(names)
    for at in map(parse_count_name, kept):
        if at is not None and at not in IGNORED_RESOURCES:
            found.setdefault(at, object_count(*at))
    return tuple(each for each in found.values() if any(map(each.measures, kept)))


def usage_of(quota: JSONObject, cluster: Cluster) -> ResourceList:
    """Count what the objects of a cluster use of a ResourceQuota.

    The answer has an amount for every resource of the quota that any objects use, and none for others.

    Raises:
        InputError: an amount in the quota or in one of the objects is no quantity; the text names it.
    """
    return count_usage(read_quota(quota), cluster)


def starting_usage(quota: Quota, cluster: Cluster) -> ResourceList:
    """What is used of a quota before anything is charged: what it says itself, or else what there is.

    Raises:
        InputError: as in :func:`usage_of`.
    """
    return count_usage(quota, cluster) if quota.used is None else quota.used


def count_usage(quota: Quota, cluster: Cluster) -> ResourceList:
    """Count as :func:`usage_of` does.

    Raises:
        InputError: an amount in one of the objects is no quantity; the text names it.
    """
    used: ResourceList = {}
    for evaluator in evaluators_of(quota.hard):
        names = [name for name in quota.hard if evaluator.measures(name)]
        used = add(used, dict.fromkeys(names, ZERO))
        for each in _matching_objects(quota, evaluator, cluster):
            used = add(used, mask(_object_usage(evaluator, each), names))
    return used


def _matching_objects(quota: Quota, evaluator: QuotaEvaluator, cluster: Cluster) -> Iterator[JSONObject]:
    """The objects of a collection that are of all scopes of a quota; none where a scope is malformed."""
    for each in cluster.list(evaluator.group, evaluator.resource, quota.namespace):
        try:
            of_scopes = evaluator.matching(quota.scopes, each)
        except InputError:
            return
        if len(of_scopes) == len(quota.scopes):
            yield each


def _object_usage(evaluator: QuotaEvaluator, stored: JSONObject) -> ResourceList:
    try:
        return evaluator.usage(stored)
    except RefusalError as error:
        metadata = stored["metadata"]
        where = f"{metadata.get('namespace')}/{metadata.get('name')}"
        collection = qualified_resource(evaluator.group, evaluator.resource)
        raise InputError(f"{collection} {go_quoted(where)}: {error}") from None


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaDelta:
    """What a request is to be charged against one quota."""

    quota: Quota
    amounts: ResourceList
    """More than nothing of each, and of what the quota limits alone."""


@dataclasses.dataclass(frozen=True, slots=True)
class _QuotaCoverage:
    """What the quotas of a namespace have to say about an object."""

    matching: list[Quota]
    """Those that it is to be charged against."""
    names: set[str]
    """The resources that these limit."""
    scopes: list[ScopeRequirement]
    """The scopes of any quota that it is of, even where the quota as a whole does not match."""


def quota_deltas(
    review: Review, evaluator: QuotaEvaluator, quotas: Sequence[Quota], limited: Sequence[LimitedResource]
) -> tuple[QuotaDelta, ...]:
    """Work out what a request is to be charged against which quotas, in their order.

    Raises:
        RefusalError: it may not be, however much is used.
    """
    usage = evaluator.usage(review.object)
    wanted_scopes = limited_scopes(limited, evaluator, review.object)
    coverage = _quota_coverage(review, evaluator, quotas)
    negative = [name for name, amount in usage.items() if amount.sign < 0]
    if negative:
        raise _forbidden(review, f"quota usage is negative for resource(s): {format_names(negative)}")
    changes = _UsageChange.of(review, evaluator, usage)
    dues = [(quota, without_zeros(changes.of_quota(quota))) for quota in coverage.matching]
    if not any(amounts for _, amounts in dues) and (dues or not without_zeros(changes.uncovered)):
        return ()
    _check_covered(review, coverage, limited_names(limited, evaluator, usage), wanted_scopes)
    limits = (QuotaDelta(quota, mask(amounts, quota.hard.keys())) for quota, amounts in dues)
    return tuple(due for due in limits if due.amounts)


def usage_after(
    review: Review, dues: Sequence[QuotaDelta], usages: Sequence[ResourceList]
) -> list[ResourceList]:
    """Work out what is used of each quota once a request is charged.

    Args:
        review: The request.
        dues: What it is charged.
        usages: How much is used of each of their quotas.

    Raises:
        RefusalError: it does not fit into one of them.
    """
    after = [add(used, due.amounts) for due, used in zip(dues, usages, strict=True)]
    if review.subresource == "status":
        # What has happened already is written down, whether or not it fits.
        return list(after)
    for due, used, total in zip(dues, usages, after, strict=True):
        names = exceeding(mask(total, due.amounts.keys()), due.quota.hard)
        if names:
            raise _forbidden(review, _exceeded_message(due, used, names))
    return list(after)


def freed_deltas(
    review: Review, evaluator: QuotaEvaluator, quotas: Sequence[Quota]
) -> tuple[QuotaDelta, ...]:
    """Work out what a request that was done leaves free: what its object used of each quota, and does not any more.

    Admission never credits a quota. This is what Kubernetes' quota controller finds when it counts anew.

    Raises:
        RefusalError: an amount is no quantity, or the scopes of a quota are malformed.
    """
    found = []
    for quota in quotas:
        before = _usage_in_quota(_old_review(review), evaluator, quota)
        after = {} if review.operation is Operation.DELETE else _usage_in_quota(review, evaluator, quota)
        amounts = without_zeros(increase(before, after))
        if amounts:
            found.append(QuotaDelta(quota, amounts))
    return tuple(found)


def _usage_in_quota(review: Review, evaluator: QuotaEvaluator, quota: Quota) -> ResourceList:
    if len(_matching_scopes(evaluator, quota, review)) != len(quota.scopes):
        return {}
    return mask(evaluator.usage(review.object), [name for name in quota.hard if evaluator.measures(name)])


def _exceeded_message(due: QuotaDelta, used: ResourceList, names: set[str]) -> str:
    return (
        f"exceeded quota: {due.quota.name}, requested: {format_amounts(mask(due.amounts, names))},"
        f" used: {format_amounts(mask(used, names))}, limited: {format_amounts(mask(due.quota.hard, names))}"
    )


def _quota_coverage(review: Review, evaluator: QuotaEvaluator, quotas: Sequence[Quota]) -> _QuotaCoverage:
    coverage = _QuotaCoverage([], set(), [])
    for quota in quotas:
        of_scopes = _matching_scopes(evaluator, quota, review)
        coverage.scopes.extend(of_scopes)
        names = [name for name in quota.hard if evaluator.measures(name)]
        if names and len(of_scopes) == len(quota.scopes):
            _check_measurable(review, evaluator, quota, names)
            coverage.matching.append(quota)
            coverage.names.update(names)
    return coverage


def _matching_scopes(evaluator: QuotaEvaluator, quota: Quota, review: Review) -> list[ScopeRequirement]:
    try:
        return evaluator.matching(quota.scopes, review.object)
    except InputError as error:
        text = f"error matching scopes of quota {quota.name}, err: {error}"
        raise RefusalError(statuses.plain_error(text)) from None


def _check_measurable(review: Review, evaluator: QuotaEvaluator, quota: Quota, names: Sequence[str]) -> None:
    missing = evaluator.missing(names, review.object)
    if missing:
        raise _forbidden(review, f"failed quota: {quota.name}: {missing}")
    if quota.used is not None and any(name not in quota.used for name in names):
        text = f"status unknown for quota: {quota.name}, resources: {format_names(names)}"
        raise _forbidden(review, text)


def _check_covered(
    review: Review, coverage: _QuotaCoverage, names: set[str], scopes: Sequence[ScopeRequirement]
) -> None:
    """Refuse what is limited by default and covered by no quota."""
    uncovered = names - coverage.names
    if uncovered:
        raise _forbidden(review, f"insufficient quota to consume: {format_names(uncovered)}")
    covered = {scope.scope_name for scope in coverage.scopes}
    left = [scope for scope in scopes if scope.scope_name not in covered]
    if left:
        text = f"insufficient quota to match these scopes: {format_scopes(left)}"
        raise RefusalError(statuses.plain_error(text))


@dataclasses.dataclass(frozen=True, slots=True)
class _UsageChange:
    """By how much a request changes what is used."""

    review: Review
    evaluator: QuotaEvaluator
    whole: ResourceList
    """What the object uses."""
    growth: ResourceList | None
    """How much more that is than before; None where it cannot have been charged before."""

    @classmethod
    def of(cls, review: Review, evaluator: QuotaEvaluator, usage: ResourceList) -> _UsageChange:
        growth = None
        if review.operation is Operation.UPDATE:
            if review.old_object is None:
                text = "unable to get previous usage since prior version of object was not found"
                raise _forbidden(review, text)
            # What has no version was never stored: the update creates it.
            if member(review.old_object, "metadata", "resourceVersion"):
                growth = increase(usage, evaluator.usage(review.old_object))
        return cls(review, evaluator, usage, growth)

    @property
    def uncovered(self) -> ResourceList:
        """What counts where no quota matches."""
        return self.whole if self.growth is None else self.growth

    def of_quota(self, quota: Quota) -> ResourceList:
        """What counts for a quota: everything where the object was not of it before."""
        if self.growth is None:
            return self.whole
        was_of_it = len(_matching_scopes(self.evaluator, quota, _old_review(self.review))) == len(
            quota.scopes
        )
        return self.growth if was_of_it else self.whole


def _old_review(review: Review) -> Review:
    return review.with_object(review.old_object_document)


def _forbidden(review: Review, text: str) -> RefusalError:
    return RefusalError(statuses.admission_forbidden(review, text))
