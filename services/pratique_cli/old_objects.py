"""Old objects: what ``--old`` names, the objects as they are stored before an UPDATE or a DELETE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.clusters import ObjectStore
from pratique.documents import read_documents, unwrap_lists
from pratique.errors import InputError
from pratique.objects import DEFAULT_NAMESPACE, namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pratique.clusters import ObjectKey
    from pratique.resources import Resources
    from pratique.source_documents import SourceDocument


def load_old(paths: Iterable[Path | str], resources: Resources, namespace: str | None) -> ObjectStore:
    """Read the manifests of files and folders; those that name no namespace are in ``namespace``.

    Kinds are those of ``resources``, and those that definitions among the manifests add.

    Raises:
        InputError: something cannot be read, is of no known kind, has no name, or is there twice.
    """
    documents = [document for path in paths for document in unwrap_lists(read_documents(path))]
    return store_old(documents, resources, namespace)


def store_old(
    documents: Iterable[SourceDocument], resources: Resources, namespace: str | None
) -> ObjectStore:
    """Do the same with manifests that have been read already."""
    store = ObjectStore(resources=resources)
    first: dict[ObjectKey, SourceDocument] = {}
    for document in sorted(documents, key=_after_definitions):
        try:
            key = _key_of(document, store, namespace)
            if key in first:
                place = f"{first[key].file}, document {first[key].index + 1}"
                raise InputError(f"{key} is there twice, first in {place}")  # noqa: TRY301 - gets its place below
            store.put(document.data, key)
        except InputError as error:
            raise document.fault((), str(error)) from None
        first[key] = document
    return store


def _key_of(document: SourceDocument, store: ObjectStore, namespace: str | None) -> ObjectKey:
    key = store.key_of(document.data)
    if key.namespace and not namespace_of(document.data):
        return key._replace(namespace=namespace or DEFAULT_NAMESPACE)
    return key


def _after_definitions(document: SourceDocument) -> bool:
    return bool(document.data.get("kind") != "CustomResourceDefinition")
