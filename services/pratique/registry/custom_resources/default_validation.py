"""Defaults of a definition's schemas: they must be valid themselves, and have no unknown fields.

Source: ``k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting/validation.go``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from pratique.apimachinery.field_errors import FieldError, FieldPath, invalid
from pratique.registry.custom_resources import pruning
from pratique.registry.custom_resources.embedded_resources import coerce, validate_embedded
from pratique.registry.custom_resources.rules import rule_validator
from pratique.registry.custom_resources.schema_validation import SchemaValidator
from pratique.registry.custom_resources.structural import META_FIELDS, Structural, any_node
from pratique.registry.custom_resources.value_validation import shown
from pratique.registry.strict_decoding import StrictDecodingError


def validate_defaults(
    schema: Structural, path: FieldPath, *, must_be_pruned: bool, is_root: bool = True
) -> Iterator[FieldError]:
    """Find defaults that are not valid. Those of metadata, which are very rare, are not looked at."""
    if schema.default is not None:
        yield from _validate(schema, path / "default", must_be_pruned=must_be_pruned, is_root=is_root)
    if schema.items is not None:
        yield from validate_defaults(
            schema.items, path / "items", must_be_pruned=must_be_pruned, is_root=schema.items.is_embedded
        )
    for name, child in sorted(schema.properties.items()):
        if (is_root or schema.is_embedded) and name in META_FIELDS:
            continue
        inner = (path / "properties").key(name)
        yield from validate_defaults(child, inner, must_be_pruned=must_be_pruned, is_root=child.is_embedded)


def _validate(
    schema: Structural, path: FieldPath, *, must_be_pruned: bool, is_root: bool
) -> Iterator[FieldError]:
    default = schema.default
    if must_be_pruned:
        unknown = pruning.UnknownFields()
        pruning.prune(default, schema, unknown, is_root=schema.is_embedded)
        if unknown.paths:
            yield invalid(path, shown(default), "must not have unknown fields")
    try:
        coerced = coerce(default, schema, [])
    except StrictDecodingError as error:
        yield invalid(path, shown(default), str(error))
        return
    errors = [_below(path, error) for error in validate_embedded(coerced, schema)]
    errors = errors or [_below(path, error) for error in SchemaValidator(schema.written).errors(default)]
    if not errors and any_node(schema, rules=True):
        errors = _errors_of_rules(schema, path, is_root=is_root)
    yield from errors


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


def _below(path: FieldPath, error: FieldError) -> FieldError:
    """The error of a value that is itself below ``path``."""
    text = str(error.path)
    below = FieldPath((f"{path}" if text == "<nil>" else f"{path}{'' if text[:1] == '[' else '.'}{text}",))
    return dataclasses.replace(error, path=below)
