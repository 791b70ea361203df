"""The collections of an API server: where they are, in which version, and what is kept of their objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.kinds import ResourceType
from pratique.cluster.api_server import METADATA_ONLY
from pratique.cluster.store import ObjectStore

At: TypeAlias = "tuple[str, str]"
"""A group and a resource."""

_METADATA_IS_ENOUGH = frozenset({("", "secrets")})


def accepted_for(at: At) -> str:
    """Return the media type to ask for: of Secrets, only the metadata is read."""
    return METADATA_ONLY if at in _METADATA_IS_ENOUGH else "application/json"


def types_of(at: At, store: ObjectStore) -> Iterator[ResourceType]:
    """Yield the versions of a collection, the preferred one first."""
    group, resource = at
    for type_ in store.resources:
        if (type_.resource.group, type_.resource.resource, type_.subresource) == (group, resource, ""):
            yield type_


def resources_named(names: Iterable[str], store: ObjectStore) -> Iterator[At]:
    """Yield the collections whose resources have these names, in whatever group."""
    wanted = frozenset(names)
    for type_ in store.resources:
        if type_.resource.resource in wanted and not type_.subresource and type_.removed_in is None:
            yield type_.resource.group, type_.resource.resource


def collection_path(type_: ResourceType, namespace: str = "") -> str:
    """Return the path of a collection, of one namespace if given."""
    at = type_.resource
    group, version, resource = at.group, at.version, at.resource
    within = f"namespaces/{namespace}/" if namespace else ""
    return f"/{f'apis/{group}' if group else 'api'}/{version}/{within}{resource}"


_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def without_managed_fields(document: JSONObject, type_: ResourceType | None) -> JSONObject:
    """An object with its kind, which items of lists lack, and without its managed fields, which nothing looks up.

    A Secret also loses the annotation in which kubectl keeps what was applied, its data included.
    """
    metadata = {key: value for key, value in document["metadata"].items() if key != "managedFields"}
    if type_ is None:
        return {**document, "metadata": metadata}
    group, version, kind = type_.kind.group, type_.kind.version, type_.kind.kind
    if _LAST_APPLIED in (metadata.get("annotations") or {}) and (group, kind) == ("", "Secret"):
        kept = {name: text for name, text in metadata["annotations"].items() if name != _LAST_APPLIED}
        metadata["annotations"] = kept
    own = document.get("apiVersion") if document.get("kind") == kind else ""
    named = {"apiVersion": own or (f"{group}/{version}" if group else version), "kind": kind}
    return {**document, **named, "metadata": metadata}
