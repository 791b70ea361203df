"""The inputs of a run: files of configurations, and files of objects to try."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from pratique.admission.reviews import QuotaMode, Review
from pratique.apimachinery.documents import is_suite
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import Document, JSONObject
from pratique.apimachinery.manifest_files import list_files
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.source_documents import STDIN, SourceDocument
from pratique.cluster.store import Cluster, ObjectStore
from pratique.configuration.admissionregistration import GROUP, PolicyKind, WebhookConfigurationKind
from pratique.manifests.requests import review_of_manifest
from pratique_cli.reviews.inputs import read_inputs
from pratique_cli.reviews.requests import review_of


@dataclasses.dataclass(frozen=True, slots=True)
class MutatorCase:
    """An object to try, and its request."""

    document: JSONObject = dataclasses.field(repr=False)
    """The object."""
    cluster: Cluster = dataclasses.field(repr=False)
    """The objects that mutators look up."""
    dry_run: bool = True
    """Whether requests are dry runs, so that webhooks have no side effects."""
    operation: Operation = Operation.CREATE
    """The operation; the old object of an UPDATE equals the new one."""
    source: SourceDocument | None = None
    """The document of a given object; None if it was generated."""
    recorded: Review | None = None
    """The AdmissionReview that contains it; None for manifests."""

    def review(self, document: JSONObject | None = None) -> Review:
        """Make the review of the object, or of a replacement.

        Raises:
            InputError: the request is impossible.
        """
        data = self.document if document is None else document
        if self.recorded is not None:
            request = self.recorded.with_object(Document.from_data(data))
        else:
            request = review_of_manifest(
                data,
                self.cluster.resources,
                operation=self.operation,
                old=data if self.operation is Operation.UPDATE else None,
                dry_run=self.dry_run,
                cluster=self.cluster,
            )
        # Trying an object must not charge a quota.
        return msgspec.structs.replace(request, dry_run=self.dry_run, quota_mode=QuotaMode.CHECK)


def given_case(document: SourceDocument, store: ObjectStore, *, dry_run: bool) -> MutatorCase | None:
    """Make the case of a manifest or an AdmissionReview; None for a review without an object, such as a DELETE.

    Raises:
        InputError: it is neither, or the request is impossible.
    """
    review = review_of(document, store, 0)
    if review.object is None:
        return None
    if document.data.get("kind") == "AdmissionReview":
        return MutatorCase(review.object, store, dry_run, review.operation, document, review)
    return MutatorCase(document.data, store, dry_run, source=document)


_KINDS = frozenset(kind.value for kind in (*WebhookConfigurationKind, *PolicyKind))


class CheckInputs(msgspec.Struct, frozen=True):
    """The inputs of ``pratique prove``."""

    configurations: tuple[Path, ...]
    """Files of webhook configurations and policies."""
    objects: tuple[SourceDocument, ...]
    """Manifests and AdmissionReviews."""


def read_check_inputs(paths: Iterable[Path]) -> CheckInputs:
    """Read files and folders, and separate configurations from objects. Test suites are skipped.

    Raises:
        InputError: a file cannot be read, or holds both configurations and objects.
    """
    configurations: list[Path] = []
    objects: list[SourceDocument] = []
    for file in _files(paths):
        documents = list(_read_file(file))
        settings = [document for document in documents if _is_configuration(document.data)]
        if settings and len(settings) < len(documents):
            stray = next(document for document in documents if document not in settings)
            raise stray.fault((), "is in a file of configurations; put objects into a separate file")
        if settings:
            configurations.append(Path(file))
        else:
            objects += documents
    return CheckInputs(tuple(configurations), tuple(objects))


def _files(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        yield from [STDIN] if str(path) == STDIN else list_files(path)


def _read_file(file: str) -> Iterator[SourceDocument]:
    for document in read_inputs(file):
        if isinstance(document, InputError):
            raise document
        if not is_suite(document.data):
            yield document


def _is_configuration(data: JSONObject) -> bool:
    group = str(data.get("apiVersion", "")).partition("/")[0]
    return group == GROUP and data.get("kind") in _KINDS
