"""Which evaluator is whose.

Source: ``pkg/quota/v1/evaluator/core/registry.go`` and ``pkg/quota/v1/install/registry.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.quotas import device_claims, pods, services, volume_claims
from pratique.quotas.object_counts import ALIASED, counted, object_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pratique.quotas.evaluators import Evaluator

IGNORED = frozenset(
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

_EVALUATORS: Mapping[tuple[str, str], Evaluator] = {
    (each.group, each.resource): each
    for each in (
        pods.EVALUATOR,
        services.EVALUATOR,
        volume_claims.EVALUATOR,
        device_claims.EVALUATOR,
        *(object_count("", resource) for resource in ALIASED),
    )
}


def evaluator_of(group: str, resource: str) -> Evaluator:
    """The evaluator of a collection; one that only counts where nothing else is known of it."""
    return _EVALUATORS.get((group, resource)) or object_count(group, resource)


def evaluators_of(names: Iterable[str]) -> tuple[Evaluator, ...]:
    """All evaluators that measure any of the resources that a quota names."""
    found = dict(_EVALUATORS)
    kept = tuple(names)
    for at in map(counted, kept):
        if at is not None and at not in IGNORED:
            found.setdefault(at, object_count(*at))
    return tuple(each for each in found.values() if any(map(each.measures, kept)))
