"""Reviews for tests, made from manifests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pratique.admission.reviews import Review, impersonated_user
from pratique.apimachinery.documents import read_documents, read_text
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSONObject, decode, encode
from pratique.apimachinery.manifest_files import FOLDER_SUFFIXES
from pratique.apimachinery.requests import Operation, UserInfo
from pratique.apimachinery.source_documents import SourceDocument, unwrap_lists
from pratique.cluster.files import load_cluster
from pratique.cluster.store import ObjectStore
from pratique.manifests.requests import KUBECTL_USER, review_of_manifest

Manifest: TypeAlias = "Mapping[str, Any] | str | Path"
"""An object as a mapping, as a text in YAML or JSON, or as the path of a file with such a text."""


def make_review(  # noqa: PLR0913 - a request has this many attributes besides the manifest
    manifest: Manifest,
    *,
    operation: str = Operation.CREATE,
    old: Manifest | None = None,
    namespace: str | None = None,
    user: UserInfo | str = KUBECTL_USER,
    groups: Iterable[str] = (),
    subresource: str = "",
    dry_run: bool = False,
    cluster: Iterable[Manifest] | None = None,
    object_validation: bool = False,
) -> Review:
    """Make the review of the request that creates, updates or deletes an object.

    Args:
        manifest: The object.
        operation: CREATE, UPDATE, DELETE or CONNECT.
        old: The stored object, for UPDATE and DELETE; None means the one in ``cluster``.
        namespace: The namespace of a namespaced object that names none; None means ``default``.
        user: The user, or the name of one, who is then also in ``system:authenticated``.
        groups: The groups of a user who is given by name.
        subresource: The subresource, such as ``status``; empty for the object itself.
        dry_run: Whether nothing is to be stored.
        cluster: The objects that policies can look up; a text or file may hold several. None means that every namespace
            exists, and nothing else does. Namespaces have their ``default`` ServiceAccount either way, because a
            controller makes it in a cluster.
        object_validation: Whether a chain decodes, defaults and validates the object as an API server does. Then
            fragments of objects are denied.

    Raises:
        InputError: a manifest is not one object of a known kind, or the request is impossible.
    """
    __tracebackhide__ = True
    try:
        return _make_review(
            manifest,
            cluster,
            operation=operation,
            old=old,
            namespace=namespace,
            user=user,
            groups=tuple(groups),
            subresource=subresource,
            dry_run=dry_run,
            object_validation=object_validation,
        )
    except InputError as error:
        raise error.with_traceback(
            None
        ) from None  # pytest shows the line of the test, and not our ways below it


def _make_review(
    manifest: Manifest,
    cluster: Iterable[Manifest] | None,
    *,
    operation: str,
    old: Manifest | None,
    user: UserInfo | str,
    groups: Sequence[str],
    **shape: Any,
) -> Review:
    store = _store_of(cluster)
    try:
        action = Operation(operation)
    except ValueError:
        known = ", ".join(Operation)
        raise InputError(f"operation {operation!r} is none of {known}") from None
    if isinstance(user, str):
        user = impersonated_user(user, groups)
    elif groups:
        raise InputError("groups belong to a user given by name; a UserInfo has its own")
    return review_of_manifest(
        _object_in(manifest),
        store.resources,
        operation=action,
        old=None if old is None else _object_in(old),
        user=user,
        cluster=store,
        **shape,
    )


def _store_of(cluster: Iterable[Manifest] | None) -> ObjectStore:
    if cluster is None:
        return load_cluster(None)
    if isinstance(cluster, str | Path | Mapping):
        raise InputError("cluster takes a list of manifests")
    documents = [document for manifest in cluster for document in _documents_in(manifest)]
    return load_cluster([], documents, assumed=frozenset({"serviceaccounts"}))


def _object_in(manifest: Manifest) -> JSONObject:
    documents = list(unwrap_lists(_documents_in(manifest)))
    if len(documents) != 1:
        raise InputError(f"a review is of one object, and the manifest holds {len(documents)}")
    return documents[0].data


def _documents_in(manifest: Manifest) -> Iterable[SourceDocument]:
    """The documents of a manifest, each an independent copy."""
    if isinstance(manifest, Path):
        return read_documents(manifest)
    if isinstance(manifest, str):
        if manifest.endswith(tuple(FOLDER_SUFFIXES)) and "\n" not in manifest:
            raise InputError(f"{manifest!r} is a text: write Path({manifest!r}) to read a file")
        return read_text(manifest.encode(), "manifest")
    # what is read back is what any client could have sent, and no test can change it afterwards
    return read_text(encode(decode(encode(dict(manifest)))), "manifest")
