"""Mutated objects: one object in all the versions that policies see it in, as they have left it so far.

Sources, below ``k8s.io/apiserver/pkg/admission``: ``plugin/policy/generic/policy_dispatcher.go``
``versionedAttributeAccessor`` and the end of ``dispatchInvocations`` in ``plugin/policy/mutating/dispatcher.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.conversions import convert
from pratique.json_values import Document

if TYPE_CHECKING:
    from pratique.admission_policies.sights import Sight
    from pratique.json_values import JSONObject
    from pratique.kinds import GroupVersionResource
    from pratique.reviews import Review


class MutatedObjects:
    """The object in each version, by how it came in.

    As in the API server, each version is looked after for itself: policies that matched by one do not see what those
    that matched by another have done, and what comes out is the version that was mutated last.
    """

    def __init__(self) -> None:
        """Nothing has been changed."""
        self._now: dict[Sight, Sight] = {}
        self._last: Sight | None = None

    def now(self, came_in: Sight) -> Sight:
        """See one version as it is now."""
        return self._now.get(came_in, came_in)

    def touch(self, came_in: Sight) -> None:
        """Remember that a mutation of this version is tried."""
        self._last = came_in

    def change(self, came_in: Sight, document: JSONObject) -> None:
        """Replace the object in one version, be it by what it is anyway."""
        sight = self.now(came_in)
        review = sight.review
        self._now[came_in] = sight.changed(review.with_object(Document.from_data(document)))

    def are_only_of(self, resource: GroupVersionResource) -> bool:
        """Whether nothing but the object in that version was mutated."""
        return [one.review.resource for one in self._now.values()] == [resource]

    def outcome(self, asked: Review) -> tuple[Document, bool]:
        """Give the object in the version of the request, and whether anything was applied to it at all."""
        if self._last is None or self._last not in self._now:
            return asked.object_document, False
        review = self._now[self._last].review
        if review.resource == asked.resource:
            return review.object_document, True
        return convert(review.object_document, asked.resource, asked.kind, asked.cluster), True
