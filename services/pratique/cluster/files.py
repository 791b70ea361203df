"""Loading a cluster from the files that ``--cluster`` names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pratique.apimachinery.documents import read_objects
from pratique.apimachinery.errors import ConfigurationError, InputError
from pratique.apimachinery.kinds import kind_of
from pratique.apimachinery.source_documents import SourceDocument, unwrap_lists
from pratique.cluster.api_resources import CRD_GROUP
from pratique.cluster.store import ASSUMABLE, ObjectKey, ObjectStore


def load_cluster(
    paths: Sequence[Path | str] | None,
    further: Sequence[SourceDocument] = (),
    *,
    definitions: Sequence[Path | str] = (),
    assumed: frozenset[str] | None = None,
) -> ObjectStore:
    """Load the objects of files and folders; nothing else exists in the cluster.

    Args:
        paths: Files and folders. None means that every namespace exists with its ``default`` ServiceAccount, and
            nothing else does.
        further: Objects that were read already, added to those of the files.
        definitions: Files and folders of CustomResourceDefinitions, which say nothing about what else exists.
        assumed: Resources of ``ASSUMABLE`` that exist though they are not listed; None means all of them without
            ``paths``, and none with it.

    Raises:
        ConfigurationError: an object cannot be read, is of an unknown kind, has no name, or is a duplicate. The message
            has a line for each, with file and document.
    """
    if assumed is None:
        assumed = ASSUMABLE if paths is None else frozenset()
    if paths is None and not definitions:
        return ObjectStore(assumed=assumed)
    problems: list[str] = []
    documents = list(read_objects(paths, problems)) if paths is not None else []
    for document in read_objects(definitions, problems) if definitions else ():
        if _is_definition(document):
            documents.append(document)
        else:
            problem = (
                f"{document.data.get('kind')} is no CustomResourceDefinition; --cluster takes other objects"
            )
            problems.append(str(document.fault(("kind",), problem)))
    documents += unwrap_lists(further)
    store = ObjectStore(assumed=assumed)
    problems += _put_all(documents, store)
    if problems:
        raise ConfigurationError("\n".join(problems))
    return store


def _put_all(documents: Iterable[SourceDocument], store: ObjectStore) -> list[str]:
    """Put all objects into the store; return the problems in document order."""
    first: dict[ObjectKey, SourceDocument] = {}
    problems: dict[int, str] = {}
    # Definitions go first, so a custom resource may precede the definition of its kind.
    for place, document in sorted(enumerate(documents), key=lambda item: not _is_definition(item[1])):
        try:
            _put(document, store, first)
        except InputError as error:
            problems[place] = str(document.fault((), str(error)))
    return [problems[place] for place in sorted(problems)]


def _put(document: SourceDocument, store: ObjectStore, first: dict[ObjectKey, SourceDocument]) -> None:
    key = store.key_of(document.data)
    if key in first:
        raise InputError(f"{key} is there twice, first {_document_place(first[key], document)}")
    first[key] = document
    store.put(document.data, key)


def _is_definition(document: SourceDocument) -> bool:
    try:
        kind = kind_of(document.data)
    except InputError:
        return False
    return (kind.group, kind.kind) == (CRD_GROUP, "CustomResourceDefinition")


def _document_place(first: SourceDocument, second: SourceDocument) -> str:
    file = "" if first.file == second.file else f"{first.file}, "
    return f"in {file}document {first.index + 1}"
