"""The inputs of a run: files in which configurations and objects may stand side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path

from pratique.admission.reviews import QuotaMode, Review
from pratique.apimachinery.documents import is_suite, list_files
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import Document, JSONObject
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.source_documents import STDIN, SourceDocument
from pratique.cluster.store import Cluster, ObjectStore
from pratique.configuration.admissionregistration import GROUP, PolicyKind, WebhookConfigurationKind
from pratique.manifests.requests import review_of_manifest
from pratique_cli.reviews.inputs import read_inputs
from pratique_cli.reviews.requests import review_of


@dataclasses.dataclass(frozen=True, slots=True)
class MutatorCase:
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
        return dataclasses.replace(asked, dry_run=self.dry_run, quota_mode=QuotaMode.CHECK)


def given_case(document: SourceDocument, store: ObjectStore, *, dry_run: bool) -> MutatorCase | None:
    """The case of a manifest or an AdmissionReview; None for a review that has no object, such as a DELETE.

    Raises:
        InputError: it is neither, or there is no such request.
    """
    review = review_of(document, store, 0)
    if review.object is None:
        return None
    if document.data.get("kind") == "AdmissionReview":
        return MutatorCase(review.object, store, dry_run, review.operation, document, review)
    return MutatorCase(document.data, store, dry_run, source=document)


_KINDS = frozenset(kind.value for kind in (*WebhookConfigurationKind, *PolicyKind))


@dataclasses.dataclass(frozen=True, slots=True)
class CheckInputs:
    """What the paths of a proof hold."""

    configurations: tuple[Path, ...]
    """Files of webhook configurations and policies."""
    objects: tuple[SourceDocument, ...]
    """Manifests and AdmissionReviews."""


def read_check_inputs(paths: Iterable[Path]) -> CheckInputs:
    """Read files and folders, and sort their files by what stands in them. Test suites are passed over.

    Raises:
        InputError: something cannot be read, or a file holds both configurations and objects.
    """
    configurations: list[Path] = []
    objects: list[SourceDocument] = []
    for file in _files(paths):
        documents = list(_read_file(file))
        settings = [each for each in documents if _is_configuration(each.data)]
        if settings and len(settings) < len(documents):
            stray = next(each for each in documents if each not in settings)
            raise stray.fault((), "stands among configurations; put objects into a file of their own")
        if settings:
            configurations.append(Path(file))
        else:
            objects += documents
    return CheckInputs(tuple(configurations), tuple(objects))


def _files(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        yield from [STDIN] if str(path) == STDIN else list_files(path)


def _read_file(file: str) -> Iterator[SourceDocument]:
    for each in read_inputs(file):
        if isinstance(each, InputError):
            raise each
        if not is_suite(each.data):
            yield each


def _is_configuration(data: JSONObject) -> bool:
    group = str(data.get("apiVersion", "")).partition("/")[0]
    return group == GROUP and data.get("kind") in _KINDS
