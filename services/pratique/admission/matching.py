"""Matching webhooks and policies against a review: the resource they match, namespace labels and object labels.

A webhook or policy with ``matchPolicy: Equivalent`` can match another version of the requested resource, or the same
resource in a group that shares its storage; it then sees the objects converted to that version. Labels are looked up
and objects converted once for all webhooks and policies.
Sources, below ``k8s.io/apiserver/pkg/admission/plugin/webhook``: ``generic/webhook.go`` ``ShouldCallHook``,
``predicates/namespace/matcher.go`` and ``predicates/object/matcher.go``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pratique.admission.reviews import Review
from pratique.admission.rules import RuleSet
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import member
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.selectors import Labels, LabelSelector, Selector, compile_selector, labels_of
from pratique.apimachinery.statuses import Status
from pratique.cluster.api_resources import ApiResources
from pratique.cluster.conversion import convert
from pratique.cluster.served_versions import served_beside

if TYPE_CHECKING:
    from typing import Self


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


def find_matched_resource(
    rules: RuleSet, asked: RequestKey, resources: ApiResources | None
) -> MatchedResource | None:
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
    return MatchedResource(
        found, registered.kind if registered is not None and registered.kind.kind else None
    )


SelectorOrStatus: TypeAlias = "Selector | Status | None"
"""A selector; the refusal that comes of one that cannot be used; None for none, which selects nothing."""


def compile_selector_or_status(selector: LabelSelector | None) -> SelectorOrStatus:
    """Make a selector ready to be asked. One that cannot be used refuses all that is meant otherwise."""
    if selector is None:
        return None
    try:
        return compile_selector(selector)
    except InputError as error:
        return statuses.internal_error(str(error))


class MatchContext:
    """One review, with the object as it is now."""

    __slots__ = ("_aimed", "_asked", "_namespace_labels", "_object_labels", "_outside_namespaces", "review")

    def __init__(self, review: Review) -> None:
        """Look at nothing yet: most webhooks select everything."""
        self.review = review
        self._outside_namespaces = not review.namespace and review.resource.resource != "namespaces"
        self._namespace_labels: Labels | Status | None = None
        self._object_labels: Sequence[Labels] | None = None
        self._aimed: dict[MatchedResource, Review] = {}
        self._asked: RequestKey | None = None

    @property
    def asked(self) -> RequestKey:
        """All of the review that rules look at."""
        if self._asked is None:
            self._asked = RequestKey.of(self.review)
        return self._asked

    def converted(self, target: MatchedResource) -> Review:
        """The review as webhooks that match by ``target`` are to see it, converted once for all of them.

        Raises:
            ConversionError: its objects cannot be converted.
        """
        if target.resource == self.review.resource:
            return self.review
        found = self._aimed.get(target)
        if found is None:
            found = self._aimed[target] = target.convert(self.review)
        return found

    def selects_namespace(self, selector: SelectorOrStatus) -> bool | Status:
        """Tell whether its namespace is selected, or why that cannot be told.

        Cluster-scoped objects always are. A Namespace that is created or updated is judged by its new labels.
        """
        if self._outside_namespaces:
            return True
        if isinstance(selector, Status):
            return selector
        if selector is not None and selector.is_empty:
            return True
        labels = self._namespace_labels
        if labels is None:
            labels = self._namespace_labels = _find_namespace_labels(self.review)
        if isinstance(labels, Status):
            return labels
        return selector is not None and selector.matches(labels)

    def selects_object(self, selector: SelectorOrStatus) -> bool | Status:
        """Tell whether the object or the old object is selected, or why that cannot be told."""
        if not isinstance(selector, Selector):
            return selector or False
        if selector.is_empty:
            return True
        if self._object_labels is None:
            found = map(labels_of, (self.review.object, self.review.old_object))
            self._object_labels = [labels for labels in found if labels is not None]
        for labels in self._object_labels:  # noqa: SIM110 - a thousand webhooks can ask this of one review
            if selector.matches(labels):
                return True
        return False


def _find_namespace_labels(review: Review) -> Labels | Status:
    is_namespace = review.resource.resource == "namespaces" and not review.subresource
    if is_namespace and review.operation in (Operation.CREATE, Operation.UPDATE):
        labels = labels_of(review.object)
        if labels is None:
            return statuses.internal_error("object does not implement the Object interfaces")
        return labels
    if not review.namespace:
        return statuses.internal_error("resource name may not be empty")
    namespace = review.cluster.get("", "namespaces", review.namespace)
    if namespace is None:
        return statuses.not_found("", "namespaces", review.namespace)
    labels = member(namespace, "metadata", "labels")
    return labels if isinstance(labels, dict) else {}
