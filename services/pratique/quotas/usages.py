"""Usages: what of a ResourceQuota is used, counted from the objects of its namespace.

Source: ``k8s.io/apiserver/pkg/quota/v1/resources.go`` ``CalculateUsage`` and ``generic/evaluator.go``
``CalculateUsageStats``, which the quota controller counts with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.errors import InputError, RefusalError
from pratique.quotas.quota_objects import read_quota
from pratique.quotas.registries import evaluators_of
from pratique.quotas.resource_lists import ZERO, add, mask
from pratique.statuses import go_quoted, qualified_resource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.clusters import Cluster
    from pratique.demands import ResourceList
    from pratique.json_values import JSONObject
    from pratique.quotas.evaluators import Evaluator
    from pratique.quotas.quota_objects import Quota


def usage_of(quota: JSONObject, cluster: Cluster) -> ResourceList:
    """Count what the objects of a cluster use of a ResourceQuota.

    The answer has an amount for every resource of the quota that any objects use, and none for others.

    Raises:
        InputError: an amount in the quota or in one of the objects is no quantity; the text names it.
    """
    return count(read_quota(quota), cluster)


def starting_usage(quota: Quota, cluster: Cluster) -> ResourceList:
    """What is used of a quota before anything is charged: what it says itself, or else what there is.

    Raises:
        InputError: as in :func:`usage_of`.
    """
    return count(quota, cluster) if quota.used is None else quota.used


def count(quota: Quota, cluster: Cluster) -> ResourceList:
    """Count as :func:`usage_of` does.

    Raises:
        InputError: an amount in one of the objects is no quantity; the text names it.
    """
    used: ResourceList = {}
    for evaluator in evaluators_of(quota.hard):
        names = [name for name in quota.hard if evaluator.measures(name)]
        used = add(used, dict.fromkeys(names, ZERO))
        for each in _counted(quota, evaluator, cluster):
            used = add(used, mask(_usage(evaluator, each), names))
    return used


def _counted(quota: Quota, evaluator: Evaluator, cluster: Cluster) -> Iterator[JSONObject]:
    """The objects of a collection that are of all scopes of a quota; none where a scope is malformed."""
    for each in cluster.list(evaluator.group, evaluator.resource, quota.namespace):
        try:
            of_scopes = evaluator.matching(quota.scopes, each)
        except InputError:
            return
        if len(of_scopes) == len(quota.scopes):
            yield each


def _usage(evaluator: Evaluator, stored: JSONObject) -> ResourceList:
    try:
        return evaluator.usage(stored)
    except RefusalError as error:
        metadata = stored["metadata"]
        where = f"{metadata.get('namespace')}/{metadata.get('name')}"
        collection = qualified_resource(evaluator.group, evaluator.resource)
        raise InputError(f"{collection} {go_quoted(where)}: {error}") from None
