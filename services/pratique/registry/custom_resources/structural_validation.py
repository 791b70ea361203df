"""Whether a schema is structural: everything that it validates is also specified outside of its combinations.

Sources, below ``k8s.io/apiextensions-apiserver/pkg/apiserver/schema``: ``validation.go``, ``complete.go`` and
``convert.go``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping

from pratique.apimachinery.field_errors import FieldError, FieldPath, forbidden, invalid, required
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cel.errors import EvaluationError
from pratique.cel.libraries.regexes import compile_pattern

INT_OR_STRING_CLAUSES = [{"type": "integer"}, {"type": "string"}]
"""The alternatives that an int-or-string may have."""


class _Level(enum.Enum):
    """Where a node is, and what its errors say about a missing type."""

    ROOT = "must not be empty at the root"
    ITEM = "must not be empty for specified array items"
    FIELD = "must not be empty for specified object fields"


_UNSUPPORTED = (
    "id",
    "$schema",
    "$ref",
    "patternProperties",
    "dependencies",
    "additionalItems",
    "definitions",
)


def conversion_problem(schema: JSONObject) -> str:
    """Why a schema has no structural form at all; empty if it has: ``NewStructural``."""
    for name in _UNSUPPORTED:
        if schema.get(name) or (name == "additionalItems" and name in schema):
            return f"OpenAPIV3Schema '{name.replace('$schema', 'schema')}' is not supported"
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        return "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
    items = schema.get("items")
    if isinstance(items, list) and items:
        return "OpenAPIV3Schema 'items' must be a schema, but is an array"
    children = [schema.get("not"), items, schema.get("additionalProperties")]
    for name in ("allOf", "anyOf", "oneOf"):
        children += schema.get(name) or ()
    children += (schema.get("properties") or {}).values()
    return next(
        (problem for child in children if isinstance(child, dict) and (problem := conversion_problem(child))),
        "",
    )


def validate_structural(schema: JSONObject, path: FieldPath) -> list[FieldError]:
    """Find what makes a schema not structural, sorted by the text of the errors: ``ValidateStructural``."""
    errors = [*_validate_node(schema, _Level.ROOT, path), *_incomplete(schema, schema, path, path)]
    return sorted(errors, key=str)


def _validate_node(schema: JSONObject, level: _Level, path: FieldPath) -> Iterator[FieldError]:
    items, additional = schema.get("items"), schema.get("additionalProperties")
    if schema.get("type") == "array" and not isinstance(items, dict):
        yield required(path / "items", "must be specified")
    if isinstance(items, dict):
        yield from _validate_node(items, _Level.ITEM, path / "items")
    for name, child in (schema.get("properties") or {}).items():
        yield from _validate_node(child, _Level.FIELD, (path / "properties").key(name))
    if additional is not None and level is _Level.ROOT:
        yield forbidden(path / "additionalProperties", "must not be used at the root")
    if isinstance(additional, dict):
        yield from _validate_node(additional, _Level.FIELD, path / "additionalProperties")
    yield from _validate_extensions(schema, path)
    yield from _validate_combinations(schema, path, schema)
    yield from _validate_type(schema, level, path)
    yield from _validate_meta(schema, level, path)


def _validate_extensions(schema: JSONObject, path: FieldPath) -> Iterator[FieldError]:
    if schema.get("x-kubernetes-int-or-string"):
        for name in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if schema.get(name):
                yield invalid(path / name, True, "must be false if x-kubernetes-int-or-string is true")


def _validate_combinations(
    schema: JSONObject, path: FieldPath, node: JSONObject | None
) -> Iterator[FieldError]:
    """Validate what a node combines; ``node`` is the node itself unless it is part of another combination."""
    if node is None or not _are_int_or_string(schema.get("anyOf")):
        yield from _validate_clauses(schema, "anyOf", path)
    for index, clause in enumerate(schema.get("allOf") or ()):
        may_skip = index == 0 and node is not None and _are_int_or_string(clause.get("anyOf"))
        yield from _validate_nested(clause, (path / "allOf") / index, skip_any_of=may_skip)
    yield from _validate_clauses(schema, "oneOf", path)
    if isinstance(schema.get("not"), dict):
        yield from _validate_nested(schema["not"], path / "not")
    pattern = schema.get("pattern")
    if pattern:
        try:
            compile_pattern(pattern)
        except EvaluationError as error:
            yield invalid(
                path / "pattern", pattern, f"must be a valid regular expression, but isn't: {error}"
            )


def _are_int_or_string(clauses: JSON) -> bool:
    """Tell whether alternatives are those that an int-or-string may have, with nothing but zeros beside."""
    return [
        {name: value for name, value in clause.items() if not _is_zero(name, value)}
        for clause in clauses or ()
    ] == INT_OR_STRING_CLAUSES


def _is_zero(name: str, value: JSON) -> bool:
    return (name in _ZEROS and value == _ZEROS[name]) or (name == "items" and value is False)


_ZEROS: Mapping[str, JSON] = {
    **{key: [] for key in ("allOf", "anyOf", "oneOf", "enum", "items")},
    **dict.fromkeys(("id", "$schema", "$ref", "description", "title", "format", "pattern"), ""),
    **{key: {} for key in ("definitions", "dependencies", "patternProperties")},
    **dict.fromkeys(
        (
            "additionalProperties",
            "nullable",
            "exclusiveMaximum",
            "exclusiveMinimum",
            "uniqueItems",
            "x-kubernetes-embedded-resource",
            "x-kubernetes-int-or-string",
        ),
        False,
    ),
}
"""Values that leave nothing of a keyword in a structural schema: of the others, what is empty stays."""


def _validate_clauses(schema: JSONObject, name: str, path: FieldPath) -> Iterator[FieldError]:
    for index, clause in enumerate(schema.get(name) or ()):
        yield from _validate_nested(clause, (path / name) / index)


_FORBIDDEN_NESTED = {
    "type": "must be empty to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}
_UNDEFINED = frozenset({"default", "x-kubernetes-list-type", "x-kubernetes-map-type"})
"""What must not be there even if it is empty."""


def _validate_nested(
    schema: JSONObject, path: FieldPath, *, skip_any_of: bool = False
) -> Iterator[FieldError]:
    """Validate a part of a combination: it may only restrict what is specified elsewhere."""
    inner = {key: value for key, value in schema.items() if key != "anyOf"} if skip_any_of else schema
    yield from _validate_combinations(inner, path, None)
    if isinstance(schema.get("items"), dict):
        yield from _validate_nested(schema["items"], path / "items")
    for name, child in (schema.get("properties") or {}).items():
        yield from _validate_nested(child, (path / "properties").key(name))
    if schema.get("additionalProperties") not in (None, False):
        yield forbidden(path / "additionalProperties", "must be undefined to be structural")
    for name, problem in _FORBIDDEN_NESTED.items():
        if schema.get(name) or (name in _UNDEFINED and schema.get(name) is not None):
            yield forbidden(path / name, problem)
    if "metadata" in (schema.get("properties") or {}):
        yield forbidden((path / "properties").key("metadata"), "must not be specified in a nested context")


def _validate_type(schema: JSONObject, level: _Level, path: FieldPath) -> Iterator[FieldError]:
    type_ = schema.get("type") or ""
    is_embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    preserves = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    if is_embedded and type_ != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(path / "type", type_, detail) if type_ else required(path / "type", detail)
    elif not type_ and not schema.get("x-kubernetes-int-or-string") and not preserves:
        yield required(path / "type", level.value)
    if is_embedded and schema.get("additionalProperties") is not None:
        detail = "must not be used if x-kubernetes-embedded-resource is set"
        yield forbidden(path / "additionalProperties", detail)
    if level is _Level.ROOT and type_ and type_ != "object":
        yield invalid(path / "type", type_, "must be object at the root")
    if is_embedded and not preserves and not schema.get("properties"):
        case = "x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        yield required(path / "properties", f"must not be empty if {case}")


def _validate_meta(schema: JSONObject, level: _Level, path: FieldPath) -> Iterator[FieldError]:
    """Validate the schemas of ``apiVersion``, ``kind`` and ``metadata`` of whole objects."""
    if level is not _Level.ROOT and not schema.get("x-kubernetes-embedded-resource"):
        return
    properties = schema.get("properties") or {}
    for name in ("kind", "apiVersion"):
        if name in properties and properties[name].get("type") != "string":
            found = properties[name].get("type") or ""
            yield invalid((path / "properties").key(name) / "type", found, "must be string")
    if "metadata" not in properties:
        return
    metadata, at = properties["metadata"], (path / "properties").key("metadata")
    if metadata.get("type") != "object":
        yield invalid(at / "type", metadata.get("type") or "", "must be object")
    if level is _Level.ROOT and not _restricts_names_only(metadata):
        detail = (
            "must not specify anything other than name and generateName, but metadata is implicitly specified"
        )
        yield forbidden(at, detail)


_FREE_OF_METADATA = frozenset({"type", "default", "properties"})


def _restricts_names_only(metadata: JSONObject) -> bool:
    rest = {name: value for name, value in metadata.items() if name not in _FREE_OF_METADATA and value}
    return not rest and set(metadata.get("properties") or {}) <= {"name", "generateName"}


def _incomplete(nested: JSON, schema: JSON, at: FieldPath, defined: FieldPath) -> Iterator[FieldError]:
    """Find what combinations define and the schema does not specify: ``validateStructuralCompleteness``."""
    if isinstance(nested.get("not"), dict):
        yield from _incomplete_nested(nested["not"], schema, at, defined / "not")
    for name in ("allOf", "anyOf", "oneOf"):
        for index, clause in enumerate(nested.get(name) or ()):
            yield from _incomplete_nested(clause, schema, at, (defined / name) / index)


def _incomplete_nested(nested: JSON, schema: JSON, at: FieldPath, defined: FieldPath) -> Iterator[FieldError]:
    if not isinstance(schema, dict):
        yield required(at, f"because it is defined in {defined}")
        return
    yield from _incomplete(nested, schema, at, defined)
    if isinstance(nested.get("items"), dict):
        yield from _incomplete_nested(nested["items"], schema.get("items"), at / "items", defined / "items")
    properties = schema.get("properties") or {}
    for name, child in (nested.get("properties") or {}).items():
        inner, source = (at / "properties").key(name), (defined / "properties").key(name)
        yield from _incomplete_nested(child, properties.get(name), inner, source)
