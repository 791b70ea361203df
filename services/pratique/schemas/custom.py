"""The schemas of custom resources, as their CustomResourceDefinition writes them.

Sources: ``k8s.io/apiextensions-apiserver/pkg/apiserver/schema`` (structural schemas) and
``k8s.io/kube-openapi/pkg/schemaconv/openapi.go`` (how their types are merged).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.json_values import member
from pratique.schemas.built_in import structure
from pratique.schemas.types import ListType, MapType, Merge, Scalar, Structure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pratique.json_values import JSON, JSONObject
    from pratique.schemas.types import Type

_SCALARS = {
    "string": Scalar.STRING,
    "integer": Scalar.INTEGER,
    "number": Scalar.NUMBER,
    "boolean": Scalar.BOOLEAN,
}
_FORMATS = {
    "byte": Scalar.BYTES,
    "date-time": Scalar.DATE_TIME,
    "date": Scalar.DATE,
    "duration": Scalar.DURATION,
}
_OBJECT_FIELDS: Mapping[str, Type] = {"apiVersion": Scalar.STRING, "kind": Scalar.STRING}


def custom_schema(definition: JSONObject, version: str) -> Structure | None:
    """The schema of one version of a custom resource; None where the definition has no such version."""
    versions = member(definition, "spec", "versions")
    for each in versions if isinstance(versions, list) else ():
        if member(each, "name") == version:
            schema = member(each, "schema", "openAPIV3Schema")
            return _object(
                schema if isinstance(schema, dict) else _ANYTHING,
                str(member(definition, "spec", "names", "kind")),
            )
    return None


_ANYTHING: JSONObject = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _object(schema: JSONObject, name: str) -> Structure:
    """Read the schema of a whole object: what every object has is there, whatever the schema says of it."""
    inner = _structure(schema, name)
    known: Mapping[str, Type] = {**_OBJECT_FIELDS, "metadata": structure("meta.v1.ObjectMeta")}
    return Structure(
        name,
        lambda: {**inner.fields, **known},
        inner.required,
        inner.defaults,
        inner.atomic,
        open=inner.open,
    )


def _type(schema: JSON) -> Type:
    if not isinstance(schema, dict):
        return Scalar.ANY
    if schema.get("x-kubernetes-int-or-string"):
        return Scalar.INT_OR_STRING
    match schema.get("type"):
        case "array":
            return _list(schema)
        case "object":
            return _map_or_structure(schema)
        case "string":
            return _FORMATS.get(str(schema.get("format")), Scalar.STRING)
        case kind:
            return _SCALARS.get(str(kind), Scalar.ANY)


def _list(schema: JSONObject) -> ListType:
    merge, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
    return ListType(
        _type(schema.get("items")),
        Merge(merge) if merge in tuple(Merge) else Merge.ATOMIC,
        tuple(str(key) for key in keys) if isinstance(keys, list) else (),
    )


def _map_or_structure(schema: JSONObject) -> Type:
    if schema.get("x-kubernetes-embedded-resource"):
        return _object(schema, "")
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        return MapType(_type(values), _is_atomic(schema))
    if values is True:
        return MapType(Scalar.ANY, _is_atomic(schema))
    return _structure(schema, "")


def _structure(schema: JSONObject, name: str) -> Structure:
    written = schema.get("properties")
    properties = written if isinstance(written, dict) else {}
    required = schema.get("required")
    return Structure(
        name,
        lambda: {field: _type(each) for field, each in properties.items()},
        frozenset(required) if isinstance(required, list) else frozenset(),
        {field: each["default"] for field, each in properties.items() if member(each, "default") is not None},
        _is_atomic(schema),
        open=bool(schema.get("x-kubernetes-preserve-unknown-fields")),
    )


def _is_atomic(schema: JSONObject) -> bool:
    return schema.get("x-kubernetes-map-type") == "atomic"
