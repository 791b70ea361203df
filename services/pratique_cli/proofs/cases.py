"""Cases: the objects that mutators are tried on, given or made up, each with the request that brings it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.json_values import Document
from pratique.manifests import review_of_manifest
from pratique.reviews import Charging, Operation
from pratique_cli.requests import review_of

if TYPE_CHECKING:
    from pratique.clusters import Cluster, ObjectStore
    from pratique.json_values import JSONObject
    from pratique.reviews import Review
    from pratique.source_documents import SourceDocument


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """One object, and how to ask for it."""

    document: JSONObject = dataclasses.field(repr=False)
    """The object."""
    cluster: Cluster = dataclasses.field(repr=False)
    """What mutators look up."""
    dry_run: bool = True
    """Ask for dry runs, so that webhooks change nothing elsewhere."""
    operation: Operation = Operation.CREATE
    """What is asked; an UPDATE finds the object stored as it is sent."""
    source: SourceDocument | None = None
    """Where it stands; None where it was made up."""
    recorded: Review | None = None
    """The recorded review that it is part of; None where it is a manifest."""

    def review(self, document: JSONObject | None = None) -> Review:
        """The request for the object, or for another one in its place.

        Raises:
            InputError: there is no such request.
        """
        data = self.document if document is None else document
        if self.recorded is not None:
            asked = self.recorded.with_object(Document.from_data(data))
        else:
            asked = review_of_manifest(
                data,
                self.cluster.resources,
                operation=self.operation,
                old=data if self.operation is Operation.UPDATE else None,
                dry_run=self.dry_run,
                cluster=self.cluster,
            )
        # Nothing that is tried here uses up a quota.
        return dataclasses.replace(asked, dry_run=self.dry_run, charging=Charging.TRIED)


def given_case(document: SourceDocument, store: ObjectStore, *, dry_run: bool) -> Case | None:
    """The case of a manifest or an AdmissionReview; None for a review that has no object, such as a DELETE.

    Raises:
        InputError: it is neither, or there is no such request.
    """
    review = review_of(document, store, 0)
    if review.object is None:
        return None
    if document.data.get("kind") == "AdmissionReview":
        return Case(review.object, store, dry_run, review.operation, document, review)
    return Case(document.data, store, dry_run, source=document)
