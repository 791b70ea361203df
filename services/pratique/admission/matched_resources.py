"""Targets: the collection as one of which a webhook sees what is asked.

Mostly that is the one that was asked for. A webhook with ``matchPolicy: Equivalent`` can match by another version of
it, or by its namesake in a group that shares its storage, and then sees the objects in that version.
Source: ``k8s.io/apiserver/pkg/admission/plugin/webhook/generic/webhook.go`` ``ShouldCallHook``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from pratique.apimachinery import statuses
from pratique.cluster.conversion import convert
from pratique.cluster.served_versions import served_beside

if TYPE_CHECKING:
    from typing import Self

    from pratique.admission.reviews import Operation, Review
    from pratique.admission.rules import RuleSet
    from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
    from pratique.apimachinery.statuses import Status
    from pratique.cluster.api_resources import ApiResources


class RequestKey(NamedTuple):
    """All of a review that rules look at."""

    operation: Operation
    resource: GroupVersionResource
    kind: GroupVersionKind
    subresource: str
    in_namespace: bool

    @classmethod
    def of(cls, review: Review) -> Self:
        """Take it out of a review."""
        return cls(review.operation, review.resource, review.kind, review.subresource, review.namespace != "")

    @property
    def namespace(self) -> str:
        """Stands for the name of the namespace, of which rules see only whether there is one."""
        return "any" if self.in_namespace else ""


@dataclasses.dataclass(frozen=True, slots=True)
class MatchedResource:
    """The collection as one of which a webhook sees a review."""

    resource: GroupVersionResource
    kind: GroupVersionKind | None
    """What the collection takes; None where that is not known, so that nothing can be made of it."""

    @property
    def fault(self) -> Status | None:
        """Why nothing can be made into what the webhook wants; None where something can."""
        if self.kind is not None:
            return None
        return statuses.internal_error(f"unable to convert to {self.resource}: unknown kind")

    def convert(self, review: Review) -> Review:
        """The review as the webhook is to see it.

        Raises:
            ConversionError: its objects cannot be converted.
        """
        if self.kind is None or self.resource == review.resource:
            return review
        asked_before = review.request_resource is not None
        return dataclasses.replace(
            review,
            kind=self.kind,
            resource=self.resource,
            request_kind=review.request_kind or review.kind,
            request_resource=review.request_resource or review.resource,
            request_subresource=review.request_subresource if asked_before else review.subresource,
            object_document=convert(review.object_document, self.resource, self.kind, review.cluster),
            old_object_document=convert(review.old_object_document, self.resource, self.kind, review.cluster),
        )


def find_matched_resource(rules: RuleSet, asked: RequestKey, resources: ApiResources | None) -> MatchedResource | None:
    """Find what a webhook with such rules sees of what is asked; None where it does not want to see it.

    Rules are first held against the collection that was asked for, all of them; only then, and only where
    ``resources`` are given, against its equivalents.
    """
    if rules.matches_request(asked.operation, asked.resource, asked.subresource, asked.namespace):
        return MatchedResource(asked.resource, asked.kind)
    if resources is None:
        return None
    others = served_beside(resources, asked.resource, asked.subresource)
    found = rules.first_wanted(asked.operation, others, asked.subresource, asked.namespace)
    if found is None:
        return None
    registered = resources.for_resource(found, asked.subresource)
    return MatchedResource(found, registered.kind if registered is not None and registered.kind.kind else None)
