"""Defaults of a definition's schemas: they must be valid themselves, and have no unknown fields.

Source: ``k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting/validation.go``.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pratique.apimachinery.field_errors import FieldError, FieldPath, invalid, join
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.registry.custom_resources import pruning
from pratique.registry.custom_resources.embedded_resources import coerce, validate_embedded
from pratique.registry.custom_resources.rules import rule_validator
from pratique.registry.custom_resources.schema_validation import SchemaValidator
from pratique.registry.custom_resources.structural import META_FIELDS, Structural, any_node
from pratique.registry.custom_resources.value_validation import shown
from pratique.registry.strict_decoding import StrictDecodingError


class _Surroundings(msgspec.Struct, frozen=True):
    """The resource, embedded or not, that the metadata with a default is of: ``SurroundingObjectFunc``."""

    root: Structural
    steps: tuple[str | None, ...] = ()
    """The fields that lead to the default; None stands for an item."""

    def with_default(self, default: JSON) -> JSONObject:
        """The smallest resource that has a default at its place."""
        value = default
        for step in reversed(self.steps):
            value = [value] if step is None else {step: value}
        return {"apiVersion": "validation/v1", "kind": "Validation", **value}

    def within(self, step: str | None) -> _Surroundings:
        return msgspec.structs.replace(self, steps=(*self.steps, step))


def validate_defaults(schema: Structural, path: FieldPath, *, must_be_pruned: bool) -> Iterator[FieldError]:
    """Find defaults that are not valid; the schema is that of a whole object."""
    root = schema if schema.is_embedded else msgspec.structs.replace(schema, is_embedded=True)
    yield from _validate_all(root, path, None, _Surroundings(root), must_be_pruned=must_be_pruned)


def _validate_all(
    schema: Structural,
    path: FieldPath,
    meta: _Surroundings | None,
    around: _Surroundings,
    *,
    must_be_pruned: bool,
) -> Iterator[FieldError]:
    """Validate the defaults in a schema; ``meta`` is what it is the metadata of, or inside of, if it is."""
    if schema.is_embedded:
        meta, around = None, _Surroundings(schema)
    if schema.default is not None:
        yield from _validate(schema, path / "default", meta, must_be_pruned=must_be_pruned, root=around.root)
    children: list[tuple[FieldPath, str | None, Structural]] = []
    if schema.items is not None:
        children.append((path / "items", None, schema.items))
    for name, child in sorted(schema.properties.items()):
        children.append(((path / "properties").key(name), name, child))
    for inner, step, child in children:
        below = around.within(step)
        is_meta = meta is not None or (schema.is_embedded and step in META_FIELDS)
        yield from _validate_all(
            child, inner, below if is_meta else None, below, must_be_pruned=must_be_pruned
        )


def _validate(
    schema: Structural, path: FieldPath, meta: _Surroundings | None, *, must_be_pruned: bool, root: Structural
) -> Iterator[FieldError]:
    default = schema.default
    if meta is None and must_be_pruned:
        unknown = pruning.UnknownFields()
        if pruning.prune(default, schema, unknown, is_root=schema.is_embedded) != default:
            yield invalid(path, shown(default), "must not have unknown fields")
    errors = _errors_of_object(schema, path) if meta is None else _errors_of_metadata(schema, path, meta)
    if not errors:
        validator = SchemaValidator(schema.written, is_raw=True)
        errors = [_of_schema(path, error) for error in validator.errors(default)]
    if not errors and any_node(schema, rules=True):
        errors = _errors_of_rules(schema, path, is_root=schema is root)
    yield from errors


def _errors_of_object(schema: Structural, path: FieldPath) -> list[FieldError]:
    """The errors of the types and the metadata of a resource that is in a default, or is one."""
    try:
        coerced = coerce(schema.default, schema, [])
    except StrictDecodingError as error:
        return [invalid(path, shown(schema.default), str(error))]
    return [_below(path, error) for error in validate_embedded(coerced, schema)]


def _errors_of_metadata(schema: Structural, path: FieldPath, meta: _Surroundings) -> list[FieldError]:
    """The errors of the resource whose metadata has a default, or has one inside."""
    try:
        coerced = coerce(meta.with_default(schema.default), meta.root, [])
        errors = list(validate_embedded(coerced, meta.root))
        problem = join(errors) if errors else ""
    except StrictDecodingError as error:
        problem = str(error)
    detail = f"must result in valid metadata: {problem}"
    return [invalid(path, shown(schema.default), detail)] if problem else []


def _errors_of_rules(schema: Structural, path: FieldPath, *, is_root: bool) -> list[FieldError]:
    """The errors of the rules, for the default as an unchanged value, or else as a new one."""
    validator = rule_validator(schema, schema, is_root=is_root)
    if validator is None:
        return []
    for old in (schema.default, None):
        errors = validator.validate(schema.default, old, None).errors
        if errors:
            return [_below(path, error) for error in errors]
    return []


def _of_schema(path: FieldPath, error: FieldError) -> FieldError:
    """The error of a schema about a value, which is below ``path`` with a dot even where it begins with an index."""
    text = str(error.path)
    return _below(path, error) if text == "<nil>" else msgspec.structs.replace(error, path=path / text)


def _below(path: FieldPath, error: FieldError) -> FieldError:
    """The error of a value that is itself below ``path``."""
    text = str(error.path)
    below = FieldPath((f"{path}" if text == "<nil>" else f"{path}{'' if text[:1] == '[' else '.'}{text}",))
    return msgspec.structs.replace(error, path=below)
