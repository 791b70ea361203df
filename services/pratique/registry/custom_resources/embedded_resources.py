"""The metadata of custom resources and of resources that are embedded in them.

Both are decoded as ``ObjectMeta``, whatever the schema says. Sources, below
``k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta``: ``algorithm.go``, ``coerce.go`` and
``validation.go``.
"""

from __future__ import annotations

from collections.abc import Iterator

from pratique.apimachinery import names
from pratique.apimachinery.field_errors import FieldError, FieldPath, invalid, required
from pratique.apimachinery.json_values import JSON, JSONObject, with_sorted_names
from pratique.cluster.go_decoding import TypedDecodingError
from pratique.cluster.schemas import ListType, Structure, Type, built_in_type
from pratique.cluster.typed_decoding import decode_object_meta
from pratique.registry.custom_resources.structural import Structural
from pratique.registry.custom_resources.value_validation import field_path, shown
from pratique.registry.strict_decoding import StrictDecodingError
from pratique.registry.validation.metadata import path_segment_name, validate_metadata

_PLAIN_TEXTS = frozenset({"name", "generateName", "namespace", "resourceVersion", "uid"})
_PLAIN_MAPS = frozenset({"labels", "annotations"})
_ZERO_VALUES: tuple[JSON, ...] = (None, "", 0, [], {})


def decode_metadata(written: JSON, path: str, unknown: list[str]) -> JSONObject:
    """Decode metadata as ``ObjectMeta``, without empty fields.

    Args:
        written: The metadata.
        path: Where it is, for the paths of unknown fields, which are added to ``unknown``.
        unknown: The unknown fields so far.

    Raises:
        TypedDecodingError: a field has the wrong type.
    """
    if isinstance(written, dict) and _is_plain(written):
        return written
    if written is None:
        return {}
    # Go writes it before it decodes it: of several errors, the first in the order of names counts.
    ordered = with_sorted_names(written)
    decoded = decode_object_meta(ordered)
    unknown.extend(_unknown_fields(built_in_type("meta.v1.ObjectMeta"), ordered, path))
    return {name: member for name, member in decoded.items() if member not in _ZERO_VALUES}


def _is_plain(metadata: JSONObject) -> bool:
    """Whether metadata surely is as it should be, as nearly all of it is."""
    for name, member in metadata.items():
        if name in _PLAIN_TEXTS:
            if type(member) is not str or not member:
                return False
        elif name not in _PLAIN_MAPS or type(member) is not dict or set(map(type, member.values())) != {str}:
            return False
    return True


def _unknown_fields(kind: Type, value: JSON, path: str) -> Iterator[str]:
    if isinstance(kind, Structure) and not kind.open and isinstance(value, dict):
        for name, member in value.items():
            if name in kind.fields:
                yield from _unknown_fields(kind.fields[name], member, f"{path}.{name}")
            else:
                yield f"{path}.{name}"
    elif isinstance(kind, ListType) and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown_fields(kind.items, item, f"{path}[{index}]")


def coerce(value: JSON, schema: Structural, unknown: list[str], path: str = "") -> JSON:
    """Decode the metadata of embedded resources.

    Raises:
        StrictDecodingError: the type or the metadata of an embedded resource has the wrong type.
    """
    if isinstance(value, dict):
        coerced = dict(value)
        for name in sorted(value):
            inner = f"{path}.{name}" if path else name
            if schema.is_embedded:
                _coerce_field(coerced, name, inner, unknown)
            child = schema.child(name)
            if child is not None:
                below = inner if name in schema.properties else f"{path}[{name}]"
                coerced[name] = coerce(coerced[name], child, unknown, below)
        return coerced
    if isinstance(value, list) and schema.items is not None:
        items = schema.items
        return [coerce(item, items, unknown, f"{path}[{index}]") for index, item in enumerate(value)]
    return value


def _coerce_field(coerced: JSONObject, name: str, path: str, unknown: list[str]) -> None:
    value = coerced[name]
    if name in ("apiVersion", "kind") and not isinstance(value, str):
        raise StrictDecodingError(str(invalid(field_path(path), shown(value), "must be a string")))
    if name == "metadata":
        try:
            coerced[name] = decode_metadata(value, path, unknown)
        except TypedDecodingError as error:
            raise StrictDecodingError(str(invalid(field_path(path), shown(value), str(error)))) from None


def validate_embedded(value: JSON, schema: Structural, path: str = "") -> Iterator[FieldError]:
    """Validate the types and the metadata of embedded resources."""
    if isinstance(value, dict):
        if schema.is_embedded:
            yield from _validate_resource(value, path)
        for name in sorted(value):
            child = schema.child(name)
            if child is not None:
                known = name in schema.properties
                inner = (f"{path}.{name}" if path else name) if known else f"{path}[{name}]"
                yield from validate_embedded(value[name], child, inner)
    elif isinstance(value, list) and schema.items is not None:
        for index, item in enumerate(value):
            yield from validate_embedded(item, schema.items, f"{path}[{index}]")


def _validate_resource(value: JSONObject, path: str) -> Iterator[FieldError]:
    for name in ("apiVersion", "kind"):
        if name not in value:
            yield required(field_path(f"{path}.{name}"))
    for name in ("apiVersion", "kind"):
        if name in value:
            problem = _problem_of(name, value[name])
            if problem:
                yield invalid(field_path(f"{path}.{name}"), shown(value[name]), problem)
    if "metadata" in value:
        yield from _validate_embedded_metadata(value["metadata"], f"{path}.metadata".removeprefix("."))


def _problem_of(name: str, text: JSON) -> str:
    """What is wrong with an ``apiVersion`` or ``kind``; empty if nothing is."""
    if not isinstance(text, str):
        return "must be a string"
    if not text:
        return "must not be empty"
    if name == "apiVersion":
        too_long = text.count("/") > 1
        return f"unexpected GroupVersion string: {text}" if too_long else ""
    problems = names.check_dns1035_label(text.lower())
    return f"may have mixed case, but should otherwise match: {','.join(problems)}" if problems else ""


def _validate_embedded_metadata(metadata: JSON, path: str) -> Iterator[FieldError]:
    try:
        decoded = decode_metadata(metadata, path, [])
    except TypedDecodingError as error:
        yield invalid(field_path(path), shown(metadata), str(error))
        return
    named = decoded if decoded.get("name") else {**decoded, "name": "fakename"}
    yield from validate_metadata(
        named,
        path_segment_name,
        FieldPath((path,)),
        namespaced=bool(decoded.get("namespace")),
        standard_finalizers=False,
    )
