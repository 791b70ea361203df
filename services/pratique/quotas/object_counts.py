"""Object counts: ``count/<resource>.<group>`` for objects of any kind, and the names that there were before.

Source: ``k8s.io/apiserver/pkg/quota/v1/generic/evaluator.go`` ``objectCountEvaluator``, and
``pkg/quota/v1/evaluator/core/registry.go`` ``legacyObjectCountAliases``.
"""

from __future__ import annotations

from pratique.quotas.evaluators import Evaluator
from pratique.quotas.resource_lists import ONE
from pratique.reviews import Operation, Review
from pratique.statuses import qualified_resource

_PREFIX = "count/"

ALIASED = ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
"""Core collections that a quota may name without ``count/``."""


def count_name(group: str, resource: str) -> str:
    """What a quota calls the number of objects of a collection: ``count/deployments.apps``."""
    return f"{_PREFIX}{qualified_resource(group, resource)}"


def counted(name: str) -> tuple[str, str] | None:
    """The group and resource that a name counts; None where it is no count."""
    if not name.startswith(_PREFIX):
        return None
    resource, _, group = name.removeprefix(_PREFIX).partition(".")
    return group, resource


def object_count(group: str, resource: str) -> Evaluator:
    """Make the evaluator of a collection whose objects are counted, and nothing more."""
    names = {count_name(group, resource)}
    if not group and resource in ALIASED:
        names.add(resource)
    return Evaluator(
        group=group,
        resource=resource,
        is_charged=_is_creation,
        is_kind=lambda _: True,
        measures=names.__contains__,
        usage=lambda _: dict.fromkeys(names, ONE),
    )


def _is_creation(review: Review) -> bool:
    return review.operation is Operation.CREATE and not review.subresource
