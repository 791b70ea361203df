"""Schemas of kinds: the fields of their objects, the types of the fields, and how values of a type are merged."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec

from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.apimachinery.prepared_types import prepared
from pratique.cluster import api_resources
from pratique.cluster.store import Cluster


class Scalar(enum.StrEnum):
    """The scalar types, and ``any`` for an unknown type."""

    STRING = "string"
    BYTES = "bytes"
    """A base64 string."""
    DATE_TIME = "date-time"
    DATE = "date"
    DURATION = "duration"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    QUANTITY = "quantity"
    INT_OR_STRING = "int-or-string"
    ANY = "any"


class MergeStrategy(enum.StrEnum):
    """How two lists are merged: ``x-kubernetes-list-type``."""

    ATOMIC = "atomic"
    """The new list replaces the old one."""
    SET = "set"
    """Items are unique."""
    MAP = "map"
    """Items with the same keys are merged."""


class ListType(msgspec.Struct, frozen=True):
    """A list."""

    items: Type
    merge: MergeStrategy = MergeStrategy.ATOMIC
    keys: tuple[str, ...] = ()
    """The fields that identify items of a ``map`` list, in the schema's order."""


class MapType(msgspec.Struct, frozen=True):
    """An object with arbitrary member names."""

    values: Type
    atomic: bool = False
    """A new value replaces the old one as a whole."""


class Structure(msgspec.Struct, frozen=True, eq=False, dict=True):
    """An object with named fields. Types may be recursive, so fields are resolved on demand."""

    name: str
    """The type's name in messages; empty if it has none."""
    resolve: Callable[[], Mapping[str, Type]]
    """Returns the fields."""
    required: frozenset[str] = frozenset()
    defaults: Mapping[str, JSON] = msgspec.field(default_factory=dict)
    """The default values of missing fields."""
    atomic: bool = False
    """A new value replaces the old one as a whole."""
    open: bool = False
    """Other fields are allowed too."""

    @functools.cached_property
    def fields(self) -> Mapping[str, Type]:
        """The fields by name."""
        return self.resolve()


Type: TypeAlias = Scalar | ListType | MapType | Structure
"""The type of a field."""


_FILE = Path(__file__).with_name("built_in.json")


class _Structure(msgspec.Struct, frozen=True):
    fields: dict[str, str | _Type]
    required: frozenset[str] = frozenset()
    defaults: dict[str, object] = {}
    atomic: bool = False


class _Type(msgspec.Struct, frozen=True):
    type: str = ""
    list: str | _Type | None = None
    map: str | _Type | None = None
    by: MergeStrategy = MergeStrategy.ATOMIC
    keys: tuple[str, ...] = ()
    atomic: bool = False
    granular: bool = False


class _SchemaFile(msgspec.Struct, frozen=True):
    kinds: dict[str, str]
    structures: dict[str, _Structure]


@functools.cache
def _schema_file() -> _SchemaFile:
    return msgspec.json.decode(_FILE.read_bytes(), type=prepared(_SchemaFile))


def load() -> None:
    """Load the schemas now instead of with the first review that needs one."""
    _schema_file()


@functools.lru_cache(1024)
def built_in_schema(kind: GroupVersionKind) -> Structure | None:
    """The schema of a built-in kind; None if Kubernetes has no such kind."""
    name = _schema_file().kinds.get(f"{kind.group}/{kind.version}/{kind.kind}")
    return None if name is None else built_in_type(name)


@functools.cache
def built_in_type(name: str) -> Structure:
    """A built-in type by its name, such as ``meta.v1.ObjectMeta``.

    Raises:
        KeyError: there is no such type.
    """
    written = _schema_file().structures[name]

    def resolve() -> Mapping[str, Type]:
        return {field: _read_type(kind) for field, kind in written.fields.items()}

    defaults: Mapping[str, JSON] = written.defaults
    return Structure(name, resolve, written.required, defaults, written.atomic, open=not written.fields)


def _read_type(written: str | _Type) -> Type:
    if isinstance(written, str):
        return built_in_type(written[1:]) if written.startswith("@") else Scalar(written)
    if written.list is not None:
        return ListType(_read_type(written.list), written.by, written.keys)
    if written.map is not None:
        return MapType(_read_type(written.map), written.atomic)
    found = built_in_type(written.type[1:])
    return msgspec.structs.replace(found, atomic=written.atomic and not written.granular)


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


def custom_resource_schema(definition: JSONObject, version: str) -> Structure | None:
    """The schema of a version of a custom resource; None if the definition has no such version."""
    versions = member(definition, "spec", "versions")
    for candidate in versions if isinstance(versions, list) else ():
        if member(candidate, "name") == version:
            schema = member(candidate, "schema", "openAPIV3Schema")
            return _object_schema(
                schema if isinstance(schema, dict) else _ANY_OBJECT,
                str(member(definition, "spec", "names", "kind")),
            )
    return None


_ANY_OBJECT: JSONObject = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _object_schema(schema: JSONObject, name: str) -> Structure:
    """Read the schema of a whole object: ``apiVersion``, ``kind`` and ``metadata`` are always fixed."""
    inner = _openapi_structure(schema, name)
    known: Mapping[str, Type] = {**_OBJECT_FIELDS, "metadata": built_in_type("meta.v1.ObjectMeta")}
    return Structure(
        name,
        lambda: {**inner.fields, **known},
        inner.required,
        inner.defaults,
        inner.atomic,
        open=inner.open,
    )


def _openapi_type(schema: JSON) -> Type:
    if not isinstance(schema, dict):
        return Scalar.ANY
    if schema.get("x-kubernetes-int-or-string"):
        return Scalar.INT_OR_STRING
    match schema.get("type"):
        case "array":
            return _openapi_list(schema)
        case "object":
            return _openapi_object(schema)
        case "string":
            return _FORMATS.get(str(schema.get("format")), Scalar.STRING)
        case kind:
            return _SCALARS.get(str(kind), Scalar.ANY)


def _openapi_list(schema: JSONObject) -> ListType:
    merge, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
    return ListType(
        _openapi_type(schema.get("items")),
        MergeStrategy(merge) if merge in tuple(MergeStrategy) else MergeStrategy.ATOMIC,
        tuple(str(key) for key in keys) if isinstance(keys, list) else (),
    )


def _openapi_object(schema: JSONObject) -> Type:
    if schema.get("x-kubernetes-embedded-resource"):
        return _object_schema(schema, "")
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        return MapType(_openapi_type(values), _is_atomic(schema))
    if values is True:
        return MapType(Scalar.ANY, _is_atomic(schema))
    return _openapi_structure(schema, "")


def _openapi_structure(schema: JSONObject, name: str) -> Structure:
    written = schema.get("properties")
    properties = written if isinstance(written, dict) else {}
    required = schema.get("required")
    return Structure(
        name,
        lambda: {field: _openapi_type(property_) for field, property_ in properties.items()},
        frozenset(required) if isinstance(required, list) else frozenset(),
        {
            field: property_["default"]
            for field, property_ in properties.items()
            if member(property_, "default") is not None
        },
        _is_atomic(schema),
        open=bool(schema.get("x-kubernetes-preserve-unknown-fields")),
    )


def _is_atomic(schema: JSONObject) -> bool:
    return schema.get("x-kubernetes-map-type") == "atomic"


def schema_of(kind: GroupVersionKind, cluster: Cluster) -> Structure | None:
    """The schema of a kind in a cluster; None if there is none."""
    return built_in_schema(kind) or _find_custom_resource_schema(kind, cluster)


def _find_custom_resource_schema(kind: GroupVersionKind, cluster: Cluster) -> Structure | None:
    for definition in cluster.list(api_resources.CRD_GROUP, api_resources.CRD_RESOURCE):
        named = (member(definition, "spec", "group"), member(definition, "spec", "names", "kind"))
        if named == (kind.group, kind.kind):
            return custom_resource_schema(definition, kind.version)
    return None
