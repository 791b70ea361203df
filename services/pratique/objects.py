"""Names and namespaces of Kubernetes objects that people wrote, read with care.

The namespace rules are those of ``k8s.io/apiserver/pkg/registry/rest/meta.go``.
"""

from __future__ import annotations

from typing import cast

from pratique.errors import InputError
from pratique.json_values import JSON, JSONObject, json_type

DEFAULT_NAMESPACE = "default"
"""Where a namespaced object goes that names no namespace."""


def name_of(document: JSONObject) -> str:
    """The object's name; empty where it has none.

    Raises:
        InputError: there is no metadata, or the name is no string.
    """
    return _text(_metadata(document), "name")


def generate_name_of(document: JSONObject) -> str:
    """The beginning of the name that is to be generated; empty where there is none.

    Raises:
        InputError: there is no metadata, or the value is no string.
    """
    return _text(_metadata(document), "generateName")


def namespace_of(document: JSONObject) -> str:
    """The namespace that the object names; empty where it names none.

    Raises:
        InputError: there is no metadata, or the namespace is no string.
    """
    return _text(_metadata(document), "namespace")


def placed(document: JSONObject, namespace: str, name: str = "") -> JSONObject:
    """The object as it is stored: in ``namespace``, or none where that is empty; called ``name`` if given."""
    written: JSON = document.get("metadata")
    metadata: JSONObject = written if isinstance(written, dict) else {}
    if namespace and metadata.get("namespace") == namespace and (not name or metadata.get("name") == name):
        return document
    wanted = {"name": name} if name else {}
    if namespace:
        wanted["namespace"] = namespace
    kept = {key: value for key, value in metadata.items() if key != "namespace" or namespace}
    placed_metadata = kept | wanted
    return document if placed_metadata == written else {**document, "metadata": placed_metadata}


def _metadata(document: JSONObject) -> JSONObject:
    metadata: JSON = document.get("metadata")
    if metadata is None:
        raise InputError("metadata: Required value: every object has metadata with a name")
    if not isinstance(metadata, dict):
        raise InputError(f"metadata: must be a mapping, not {json_type(metadata)}")
    return cast("JSONObject", metadata)


def _text(metadata: JSONObject, member: str) -> str:
    value: JSON = metadata.get(member)
    if value is None:
        return ""
    if not isinstance(value, str):
        hint = ": write it in quotes" if isinstance(value, bool | int | float) else ""
        raise InputError(f"metadata.{member}: must be a string, not {json_type(value)}{hint}")
    return value
