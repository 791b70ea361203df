"""Requests: what a document asks of the API server, and what an admitted request leaves behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frontdoor.codecs import decode_review
from pratique.clusters import ObjectKey
from pratique.errors import InputError
from pratique.json_values import encode, member
from pratique.manifests import review_of_manifest
from pratique.namespaces import assumed_service_account
from pratique.reviews import Operation

if TYPE_CHECKING:
    from frontdoor.decisions import Decision
    from pratique.clusters import ObjectStore
    from pratique.reviews import Review
    from pratique.source_documents import SourceDocument


def review_of(document: SourceDocument, store: ObjectStore, number: int) -> Review:
    """Make the review of a document: the AdmissionReview that it is, or the CREATE of the object that it is.

    ``number`` is its place in the whole input, and tells equal manifests apart.

    Raises:
        InputError: it is neither; the text names file, document and line.
    """
    try:
        if document.data.get("kind") == "AdmissionReview":
            return decode_review(encode(document.data), store).review
        return review_of_manifest(document.data, store.resources, cluster=store, index=number)
    except InputError as error:
        raise document.fault((), str(error)) from None


def remember(review: Review, decision: Decision, store: ObjectStore) -> None:
    """Let the reviews that follow see what an admitted request leaves behind; a dry run leaves nothing.

    Subresources and connections store no object of their own.

    Raises:
        InputError: the object is a CustomResourceDefinition that defines nothing.
    """
    if not decision.allowed or review.dry_run or review.subresource:
        return
    if review.operation is Operation.DELETE:
        store.remove(review.resource.group, review.resource.resource, review.name, review.namespace)
    elif review.operation in {Operation.CREATE, Operation.UPDATE}:
        _store(review, decision, store)


def _store(review: Review, decision: Decision, store: ObjectStore) -> None:
    document = decision.object_document.data
    name = review.name or member(document, "metadata", "name")
    if not isinstance(document, dict) or not name:
        return  # a name that is still to be generated can be looked up by nobody
    at = review.resource
    is_namespace = (at.group, at.resource) == ("", "namespaces")
    store.put(document, ObjectKey(at.group, at.resource, "" if is_namespace else review.namespace, name))
    if is_namespace and store.get("", "serviceaccounts", "default", name) is None:
        # In a cluster a controller makes it; what comes next in the input is not to wait for one.
        store.put(assumed_service_account(name))
