"""Objects held against the Go types of their kinds: an object as received, and one that was patched.

An API server refuses an object of the wrong types when it reads it, before any admission controller sees it:
``k8s.io/apiserver/pkg/endpoints/handlers/create.go`` (``transformDecodeError``). After every patch it decodes the
object again: ``k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go`` (``jsonSerializer.Decode``) and
``sigs.k8s.io/json``. A value of the wrong type is then refused in the words of Go's decoder, and an unknown field is
dropped. Only what the patch touched is checked. A custom resource has no Go type, but its metadata is decoded as
``ObjectMeta``: before it is stored in an API server
(``k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta/coerce.go``), and after the patch here.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from pratique.apimachinery.field_errors import FieldPath, Step
from pratique.apimachinery.json_values import JSON, Document, JSONObject, json_type, member, unescape
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.apimachinery.requests import RequestAttributes
from pratique.apimachinery.statuses import go_quoted
from pratique.cluster.api_resources import built_in_resources
from pratique.cluster.go_decoding import GoDecoder, Place, TypedDecodingError, zero_value
from pratique.cluster.go_types import GoKind, GoType, api_types, go_type_of_kind
from pratique.cluster.schemas import (
    ListType,
    MapType,
    Scalar,
    Structure,
    Type,
    built_in_schema,
)

_STRING = (str,)
_ACCEPTED_JSON_TYPES: Mapping[Scalar, tuple[type, ...]] = {
    Scalar.STRING: _STRING,
    Scalar.BYTES: (str, list),
    Scalar.DATE_TIME: _STRING,
    Scalar.DATE: _STRING,
    Scalar.DURATION: _STRING,
    Scalar.INTEGER: (int,),
    Scalar.NUMBER: (int, float),
    Scalar.BOOLEAN: (bool,),
    Scalar.QUANTITY: (str, int, float),
    Scalar.INT_OR_STRING: (str, int),
}
"""The JSON types allowed for a scalar; a boolean, which is an int in Python, only where it is listed."""


def type_fault(request: RequestAttributes) -> str:
    """Why an API server could not have decoded the object of a review, or the old one; empty if it could.

    The message names the field and reveals none of its content. Custom kinds are not checked.
    """
    for kind in _possible_kinds(request):
        schema = built_in_schema(kind)
        if schema is None:
            continue
        for document in (request.object, request.old_object):
            for path, wanted, found in _faults(schema, document, ()):
                where = f"{FieldPath(path)}: " if path else ""
                return (
                    f"{kind.kind} in version {go_quoted(kind.version)} cannot be handled as a {kind.kind}: "
                    f"{where}expected {wanted}, got {json_type(found)}"
                )
    return ""


def _possible_kinds(request: RequestAttributes) -> Iterator[GroupVersionKind]:
    """The kind that the review names, and the kinds that its resource may hold."""
    yield request.kind
    for subresource in (request.subresource, ""):
        for resource in built_in_resources().equivalents(request.resource, subresource):
            known = built_in_resources().for_resource(resource, subresource)
            if known is not None and known.kind != request.kind:
                yield known.kind


def _faults(kind: Type, value: JSON, path: tuple[Step, ...]) -> Iterator[tuple[tuple[Step, ...], str, JSON]]:
    """Yield path, expected type and value of everything of the wrong type; null is allowed anywhere."""
    if value is None:
        return
    match kind:
        case ListType() if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _faults(kind.items, item, (*path, index))
        case ListType():
            yield path, "list", value
        case MapType() | Structure() if isinstance(value, dict):
            for name, child in value.items():
                inner = kind.values if isinstance(kind, MapType) else kind.fields.get(name, Scalar.ANY)
                yield from _faults(inner, child, (*path, name))
        case MapType() | Structure():
            yield path, "object", value
        case Scalar() if not _is_scalar(kind, value):
            yield path, kind.value, value


def _is_scalar(kind: Scalar, value: JSON) -> bool:
    accepted = _ACCEPTED_JSON_TYPES.get(kind)
    if accepted is None:
        return True
    return isinstance(value, accepted) and (not isinstance(value, bool) or bool in accepted)


def decode_changed(
    kind: GroupVersionKind, before: JSON, changed: Document, operations: Iterable[JSONObject] | None = None
) -> Document:
    """Decode a patched object as one of its kind, and return it without unknown fields.

    Args:
        kind: The kind that the review names. The object's own kind takes precedence; one that is not built in
            belongs to a custom resource.
        before: The object before the patch, which is assumed to conform to its kind.
        changed: The object after the patch, which is not modified.
        operations: The patch, if it is known: what it sets is often all that has to be looked at.

    Raises:
        TypedDecodingError: a changed value has the wrong type.
    """
    data, struct = changed.data, _type_to_decode(kind, before)
    if struct is None:
        _decode_metadata(before, data)
        return _with_zero_strings(changed)
    if operations is not None and _values_conform(struct, before, operations):
        return changed
    decoder = GoDecoder()
    decoded = decoder.decode(struct, data, Place(), before)
    decoder.finish()
    return changed if decoded is data else Document.from_data(decoded)


def conforms(
    kind: GroupVersionKind, schema: Structure, before: JSON, operations: Iterable[JSONObject]
) -> bool:
    """Whether an object, patched by operations, surely has the types and fields of its kind.

    Looks at what the operations set and at nothing else. If it is not sure, :func:`decode_changed`, and a search for
    unknown fields, may still find that it has.

    Args:
        kind: The kind that the review names.
        schema: The schema whose fields the object may have.
        before: The object before the patch, which is assumed to conform to its kind.
        operations: The patch; those that move or copy values leave it unsure.
    """
    struct = _type_to_decode(kind, before)
    return (
        struct is not None and struct.full_name == schema.name and _values_conform(struct, before, operations)
    )


def _values_conform(struct: GoType, before: JSON, operations: Iterable[JSONObject]) -> bool:
    decoder: GoDecoder | None = None  # few patches set more than strings, for which none is needed
    try:
        for operation in operations:
            path, value = operation["path"], operation.get("value")
            if operation["op"] == "test":
                continue
            if operation["op"] not in _CHANGES:
                return False
            if value is None and operation["op"] != "remove":
                return False  # where a map or list has it, it is the zero value
            field = (_known_field if len(path) < _MAX_KNOWN_PATH else _field_at)(struct, path)
            if field is None or (field.is_item and _moves_items(before, operation)):
                return False
            if field.type.kind is GoKind.STRING and type(value) is str:
                continue  # the most frequent change
            decoder = decoder or GoDecoder()
            if decoder.decode(field.type, value, field.place) is not value:
                return False
        if decoder is not None:
            decoder.finish()
    except TypedDecodingError:
        return False
    return True


_CHANGES = frozenset({"add", "remove", "replace"})


class _FieldAtPath(NamedTuple):
    """A field, a member of a map or an item of a list."""

    type: GoType
    place: Place
    is_item: bool


def _field_at(struct: GoType, path: str) -> _FieldAtPath | None:
    """Find what a JSON Pointer leads to; None if the type does not say."""
    found, place, is_item = struct, Place(), False
    for step in path.split("/")[1:]:
        is_item = False
        match found.kind:
            case GoKind.STRUCT:
                field = found.fields.get(unescape(step))
                if field is None:
                    return None
                place, found = place.field(found, field), field.type
            case GoKind.MAP if found.items is not None:
                found = found.items
            case GoKind.LIST if found.items is not None and (step.isdecimal() or step == "-"):
                found, is_item = found.items, True
            case GoKind.ANY:
                pass
            case _:
                return None
    return _FieldAtPath(found, place, is_item)


_MAX_KNOWN_PATH = 200
"""The longest path to remember, so that all of them together take a few hundred kilobytes."""
_known_field = functools.lru_cache(maxsize=1024)(_field_at)
"""Policies change the same fields of one object after the other."""


def _moves_items(before: JSON, operation: JSONObject) -> bool:
    """Whether an operation on an item may move others to indexes that were not theirs before."""
    if operation["op"] != "add":
        return bool(operation["op"] == "remove")
    value = before
    *parents, index = map(unescape, operation["path"].split("/")[1:])
    if index == "-":
        return False
    for step in parents:
        value = member(value, int(step) if isinstance(value, list) else step)
    return isinstance(value, list) and int(index) < len(value)


def _type_to_decode(kind: GroupVersionKind, before: JSON) -> GoType | None:
    """The type of the object's own kind, else of the kind that the review names; None if that is not built in."""
    own = _own_type(before.get("apiVersion"), before.get("kind")) if isinstance(before, dict) else None
    return go_type_of_kind(kind) if own is None else own.type


class _OwnType(NamedTuple):
    """The type of an object's own kind; None if that is not built in."""

    type: GoType | None


def _own_type(api_version: JSON, kind: JSON) -> _OwnType | None:
    """The type of an object's own kind; None if the object names no kind."""
    if not isinstance(api_version, str) or not isinstance(kind, str) or not api_version or not kind:
        return None
    return _type_of(api_version, kind)


@functools.lru_cache(maxsize=256)
def _type_of(api_version: str, kind: str) -> _OwnType:
    group, _, version = api_version.rpartition("/")
    return _OwnType(go_type_of_kind(GroupVersionKind(group, version, kind)))


def _object_meta() -> GoType:
    return api_types.struct("meta.v1.ObjectMeta")


def _decode_metadata(before: JSON, data: JSON) -> None:
    """Check a custom resource's metadata, which is decoded by itself, so paths in errors start there."""
    if not isinstance(data, dict) or data.get("metadata") is None:
        return
    former_value = before.get("metadata") if isinstance(before, dict) else None
    decoder = GoDecoder()
    decoder.decode(_object_meta(), data["metadata"], Place(), former_value)
    decoder.finish()


_STRING_MAPS = ("labels", "annotations")


def _with_zero_strings(changed: Document) -> Document:
    """A custom resource whose labels and annotations are strings: null is the empty one, as Go decodes it."""
    metadata = member(changed.data, "metadata")
    if not isinstance(metadata, dict):
        return changed
    zeroed = {
        name: {key: "" if value is None else value for key, value in strings.items()}
        for name in _STRING_MAPS
        if isinstance(strings := metadata.get(name), dict) and None in strings.values()
    }
    return Document.from_data({**changed.data, "metadata": {**metadata, **zeroed}}) if zeroed else changed


def decode_object_meta(metadata: JSON) -> JSONObject:
    """Decode metadata of a custom resource without nulls and unknown fields.

    Raises:
        TypedDecodingError: a value has the wrong type.
    """
    decoder = GoDecoder(rewrites=True)
    decoded: JSONObject = decoder.decode(_object_meta(), metadata, Place(_object_meta().struct_name))
    decoder.finish()
    return decoded


def without_nulls(kind: GroupVersionKind, data: JSONObject) -> JSONObject:
    """Decode the nulls of an object: a field that is null is absent, and in a map or list null is the zero value.

    Of a custom resource, only the metadata is decoded. Values of the wrong type, and unknown fields, stay as they are.
    """
    struct = go_type_of_kind(kind)
    if struct is not None:
        found: JSONObject = _without_nulls(struct, data)
        return found
    if "metadata" not in data:
        return data
    return {**data, "metadata": _without_nulls(_object_meta(), data["metadata"])}


def _without_nulls(kind: GoType, value: JSON) -> JSON:
    match kind.kind:
        case GoKind.STRUCT if isinstance(value, dict):
            fields = kind.fields
            return {
                name: _without_nulls(fields[name].type, child) if name in fields else child
                for name, child in value.items()
                if child is not None or name not in fields
            }
        case GoKind.MAP if isinstance(value, dict) and kind.items is not None:
            return {name: _null_or_decoded(kind.items, child) for name, child in value.items()}
        case GoKind.LIST if isinstance(value, list) and kind.items is not None:
            return [_null_or_decoded(kind.items, item) for item in value]
    return value


def _null_or_decoded(kind: GoType, value: JSON) -> JSON:
    return zero_value(kind) if value is None else _without_nulls(kind, value)
