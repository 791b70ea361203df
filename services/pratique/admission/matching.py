"""Matching webhooks and policies against a review: the resource they match, namespace labels and object labels.

A webhook or policy with ``matchPolicy: Equivalent`` can match another version of the requested resource, or the same
resource in a group that shares its storage; it then sees the objects converted to that version. Labels are looked up
and objects converted once for all webhooks and policies.
Sources, below ``k8s.io/apiserver/pkg/admission/plugin/webhook``: ``generic/webhook.go`` ``ShouldCallHook``,
``predicates/namespace/matcher.go`` and ``predicates/object/matcher.go``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self, TypeAlias

import msgspec

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


class RequestKey(NamedTuple):
    """Everything about a review that rules depend on."""

    operation: Operation
    resource: GroupVersionResource
    kind: GroupVersionKind
    subresource: str
    in_namespace: bool

    @classmethod
    def of(cls, review: Review) -> Self:
        """Return the key of a review."""
        return cls(review.operation, review.resource, review.kind, review.subresource, review.namespace != "")

    @property
    def namespace(self) -> str:
        """A placeholder for the namespace: rules only depend on whether there is one."""
        return "any" if self.in_namespace else ""


class MatchedResource(msgspec.Struct, frozen=True):
    """The resource by which a webhook or policy matches a review."""

    resource: GroupVersionResource
    kind: GroupVersionKind | None
    """The kind of the resource's objects; None if it is unknown, so that objects cannot be converted to it."""

    @property
    def fault(self) -> Status | None:
        """Why objects cannot be converted to the resource; None if they can."""
        if self.kind is not None:
            return None
        return statuses.internal_error(f"unable to convert to {self.resource}: unknown kind")

    def convert(self, review: Review) -> Review:
        """Return the review with its objects converted to the resource.

        Raises:
            ConversionError: its objects cannot be converted.
        """
        if self.kind is None or self.resource == review.resource:
            return review
        was_converted = review.request_resource is not None
        return msgspec.structs.replace(
            review,
            kind=self.kind,
            resource=self.resource,
            request_kind=review.request_kind or review.kind,
            request_resource=review.request_resource or review.resource,
            request_subresource=review.request_subresource if was_converted else review.subresource,
            object_document=convert(review.object_document, self.resource, self.kind, review.cluster),
            old_object_document=convert(review.old_object_document, self.resource, self.kind, review.cluster),
        )


def find_matched_resource(
    rules: RuleSet, key: RequestKey, resources: ApiResources | None
) -> MatchedResource | None:
    """Find the resource by which rules match a request; None if they do not match.

    All rules are first compared with the requested resource. Only if none matches, and only if ``resources`` are given,
    they are compared with its equivalents.
    """
    if rules.matches_request(key.operation, key.resource, key.subresource, key.namespace):
        return MatchedResource(key.resource, key.kind)
    if resources is None:
        return None
    equivalents = served_beside(resources, key.resource, key.subresource)
    found = rules.first_wanted(key.operation, equivalents, key.subresource, key.namespace)
    if found is None:
        return None
    registered = resources.for_resource(found, key.subresource)
    return MatchedResource(
        found, registered.kind if registered is not None and registered.kind.kind else None
    )


SelectorOrStatus: TypeAlias = "Selector | Status | None"
"""A compiled selector, the Status of an invalid one, or None for no selector, which selects nothing."""


def compile_selector_or_status(selector: LabelSelector | None) -> SelectorOrStatus:
    """Compile a selector. An invalid one becomes a Status, which denies every review that reaches it."""
    if selector is None:
        return None
    try:
        return compile_selector(selector)
    except InputError as error:
        return statuses.internal_error(str(error))


class MatchContext:
    """One review with its current object: looks up labels and converts objects once for all webhooks and policies."""

    __slots__ = ("_converted", "_key", "_namespace_labels", "_object_labels", "_outside_namespaces", "review")

    def __init__(self, review: Review) -> None:
        """Compute nothing yet, because most webhooks select everything."""
        self.review = review
        self._outside_namespaces = not review.namespace and review.resource.resource != "namespaces"
        self._namespace_labels: Labels | Status | None = None
        self._object_labels: Sequence[Labels] | None = None
        self._converted: dict[MatchedResource, Review] = {}
        self._key: RequestKey | None = None

    @property
    def request_key(self) -> RequestKey:
        """Everything about the review that rules depend on."""
        if self._key is None:
            self._key = RequestKey.of(self.review)
        return self._key

    def converted(self, matched: MatchedResource) -> Review:
        """Return the review with its objects converted to ``matched``, once for all webhooks that match by it.

        Raises:
            ConversionError: its objects cannot be converted.
        """
        if matched.resource == self.review.resource:
            return self.review
        found = self._converted.get(matched)
        if found is None:
            found = self._converted[matched] = matched.convert(self.review)
        return found

    def selects_namespace(self, selector: SelectorOrStatus) -> bool | Status:
        """Tell whether a namespace selector selects the review, or return why that cannot be decided.

        It always selects cluster-scoped objects. For a Namespace that is created or updated, its new labels count.
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
        """Tell whether a selector selects the object or the old object, or return why that cannot be decided."""
        if not isinstance(selector, Selector):
            return selector or False
        if selector.is_empty:
            return True
        if self._object_labels is None:
            found = map(labels_of, (self.review.object, self.review.old_object))
            self._object_labels = [labels for labels in found if labels is not None]
        for labels in self._object_labels:  # noqa: SIM110 - a thousand webhooks can ask this about one review
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
