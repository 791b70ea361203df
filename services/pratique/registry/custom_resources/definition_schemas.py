"""The schemas of definitions: what a JSON schema in a definition may say, and whether its rules compile.

Source: ``ValidateCustomResourceDefinitionOpenAPISchema`` of
``k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import msgspec

from pratique.apimachinery.field_errors import (
    FieldError,
    FieldPath,
    forbidden,
    internal,
    invalid,
    json_text,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.registry.custom_resources.field_references import FieldReferenceError, resolve_field
from pratique.registry.custom_resources.internal_definitions import go_items, go_rule
from pratique.registry.custom_resources.rule_compilation import CompiledRule, compile_rule
from pratique.registry.custom_resources.rule_costs import (
    RULE_LIMIT,
    SchemaCost,
    child_cardinality,
    rule_cost,
    too_expensive,
)
from pratique.registry.custom_resources.rule_types import declared_type
from pratique.registry.custom_resources.structural import META_FIELDS, Structural, structural
from pratique.registry.custom_resources.structural_validation import conversion_problem

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_NOT_SUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_RULES = "x-kubernetes-validations"
_LIST_TYPE = "x-kubernetes-list-type"
_MAP_TYPE = "x-kubernetes-map-type"
_MAP_KEYS = "x-kubernetes-list-map-keys"


class SchemaOptions(msgspec.Struct, frozen=True):
    """What a stored definition may keep although a new one may not have it: ``validationOptions``."""

    requires_valid_types: bool = True
    requires_structural: bool = True
    requires_pruned_defaults: bool = True
    requires_atomic_sets: bool = True
    requires_map_keys: bool = True
    unchanged: frozenset[str] = frozenset()
    """The versions whose schemas are as they are stored, whatever their rules cost."""
    limits_rules: bool = True
    """Whether a single rule may cost too much."""
    many_selectable: frozenset[str] = frozenset()
    """The versions that keep more selectable fields than there may be; the empty name stands for all of them."""
    checks_authorities: bool = False
    """Whether the CA bundle of a conversion webhook must hold certificates."""

    def of_version(self, name: str) -> SchemaOptions:
        """The options for the schema of a version."""
        return msgspec.structs.replace(self, limits_rules=name not in self.unchanged)


class _Place(msgspec.Struct, frozen=True):
    """Where in a schema a node is: ``specStandardValidatorV3``."""

    options: SchemaOptions
    forbidden_defaults: str = ""
    """Why there may be no default here; empty if there may be one."""
    in_meta: bool = False
    """Whether it is inside the schema of ``apiVersion``, ``kind`` or ``metadata``."""
    uncorrelatable: FieldPath | None = None
    """The outermost node around it whose values cannot be compared with stored ones."""

    scope: tuple[Structural, ...] = ()
    """The nodes around it from the outermost one with rules on."""
    cardinality: int | None = 1
    """How often it can be in an object; None if nothing limits that."""
    costs: SchemaCost = msgspec.field(default_factory=SchemaCost)
    """What all rules of the schema cost."""

    def within(self, path: FieldPath) -> _Place:
        """The same place inside a node whose values cannot be compared."""
        return self if self.uncorrelatable is not None else msgspec.structs.replace(self, uncorrelatable=path)


class _Errors(msgspec.Struct):
    """Errors of schemas and, after them, those of rules."""

    schema: list[FieldError] = msgspec.field(default_factory=list)
    rules: list[FieldError] = msgspec.field(default_factory=list)

    def add(self, other: _Errors) -> None:
        self.schema += other.schema
        self.rules += other.rules


def validate_schema(
    schema: JSONObject, path: FieldPath, options: SchemaOptions, *, compiles_rules: bool
) -> list[FieldError]:
    """Validate the schema of a version; its rules only if it is structural otherwise."""
    node = structural(schema) if compiles_rules else None
    place = _Place(options)
    errors = _validate(schema, path, place, node, is_root=True)
    return errors.schema + errors.rules + place.costs.errors(path)


def _validate(
    schema: JSON, path: FieldPath, place: _Place, node: Structural | None, *, is_root: bool = False
) -> _Errors:
    errors = _Errors()
    if not isinstance(schema, dict):
        return errors
    if node is not None and (place.scope or node.rules):
        place = msgspec.structs.replace(place, scope=(*place.scope, node))
    errors.schema += _validate_keywords(schema, path, place)
    inner = msgspec.structs.replace(place, cardinality=child_cardinality(schema, place.cardinality))
    _validate_children(schema, path, inner, node, errors, is_root=is_root)
    _validate_combinations(schema, path, inner, errors)
    _validate_items(schema, path, inner, node, errors)
    errors.schema += _validate_extensions(schema, path, place.options)
    for index, rule in enumerate(schema.get(_RULES) or ()):
        errors.schema += _validate_rule(rule, schema, (path / _RULES) / index)
    if node is not None and schema.get(_RULES) and not errors.schema:
        errors.rules += _compile_rules(node, path, place, is_root=is_root or node.is_embedded)
    return errors


def _validate_keywords(schema: JSONObject, path: FieldPath, place: _Place) -> Iterator[FieldError]:
    type_ = schema.get("type")
    if type_ and place.options.requires_valid_types and type_ not in _TYPES:
        yield not_supported(path / "type", type_, _TYPES)
    if schema.get("default") is not None and place.forbidden_defaults:
        yield forbidden(path / "default", f"must not be set {place.forbidden_defaults}")
    for name in _NOT_SUPPORTED:
        if schema.get(name) or (
            name in ("additionalItems", "dependencies", "$ref") and schema.get(name) is not None
        ):
            yield forbidden(path / name, f"{name} is not supported")
    if type_ == "null":
        yield forbidden(path / "type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(schema.get("items"), list) and schema["items"]:
        yield forbidden(path / "items", "items must be a schema object and not an array")
    if place.in_meta and schema.get("x-kubernetes-embedded-resource"):
        yield forbidden(path / "x-kubernetes-embedded-resource", "must not be used inside of resource meta")
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(path / "uniqueItems", detail)


def _validate_children(
    schema: JSONObject,
    path: FieldPath,
    place: _Place,
    node: Structural | None,
    errors: _Errors,
    *,
    is_root: bool,
) -> None:
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    if additional is not None:
        at = path / "additionalProperties"
        if properties and additional is not True:
            errors.schema.append(forbidden(at, "additionalProperties and properties are mutual exclusive"))
        reason = "inside additionalProperties applying to object metadata"
        inner = msgspec.structs.replace(place, forbidden_defaults=reason) if place.in_meta else place
        errors.add(_validate(additional, at, inner, None if node is None else node.additional))
    for name, child in sorted(properties.items()):
        inner = place
        if schema.get(_MAP_TYPE) not in (None, "granular", "atomic"):
            inner = inner.within(path)
        if (is_root or schema.get("x-kubernetes-embedded-resource")) and name in META_FIELDS:
            inner = msgspec.structs.replace(inner, in_meta=True)
            if is_root:
                inner = msgspec.structs.replace(inner, forbidden_defaults=f"in top-level {name}")
        below = None if node is None else node.properties.get(name)
        errors.add(_validate(child, (path / "properties").key(name), inner, below))


def _validate_combinations(schema: JSONObject, path: FieldPath, place: _Place, errors: _Errors) -> None:
    errors.add(_validate(schema.get("not"), path / "not", place, None))
    for name in ("allOf", "oneOf", "anyOf"):
        for index, clause in enumerate(schema.get(name) or ()):
            errors.add(_validate(clause, (path / name) / index, place, None))
    for name, definition in sorted((schema.get("definitions") or {}).items()):
        errors.add(_validate(definition, (path / "definitions").key(name), place, None))


def _validate_items(
    schema: JSONObject, path: FieldPath, place: _Place, node: Structural | None, errors: _Errors
) -> None:
    items, at = schema.get("items"), path / "items"
    inner = place if schema.get(_LIST_TYPE) == "map" else place.within(path)
    if isinstance(items, list):
        for index, item in enumerate(items):
            errors.add(_validate(item, at / index, inner, None))
    elif items is not False:
        errors.add(_validate(items, at, inner, None if node is None else node.items))


def _validate_extensions(schema: JSONObject, path: FieldPath, options: SchemaOptions) -> Iterator[FieldError]:
    preserves = "x-kubernetes-preserve-unknown-fields"
    if schema.get(preserves) is False:
        yield invalid(path / preserves, False, "must be true or undefined")
    yield from _validate_kind_of(schema, path, _MAP_TYPE, "object", ("atomic", "granular"))
    if schema.get(_LIST_TYPE) == "set" and schema.get("type") == "array" and options.requires_atomic_sets:
        yield from _validate_set_items(schema.get("items"), path / "items")
    yield from _validate_kind_of(schema, path, _LIST_TYPE, "array", ("atomic", "set", "map"))
    if schema.get(_MAP_KEYS):
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        if schema.get(_LIST_TYPE) is None:
            yield required(path / _LIST_TYPE, detail)
        elif schema[_LIST_TYPE] != "map":
            yield invalid(path / _LIST_TYPE, schema[_LIST_TYPE], detail)
    if schema.get(_LIST_TYPE) == "map":
        yield from _validate_map_list(schema, path)
    if options.requires_map_keys and isinstance(schema.get("items"), dict):
        yield from validate_key_fields(schema, path)


def _validate_kind_of(
    schema: JSONObject, path: FieldPath, name: str, wanted: str, supported: tuple[str, ...]
) -> Iterator[FieldError]:
    """Validate a map or list type, and that it is that of an object or list."""
    kind, type_ = schema.get(name), schema.get("type") or ""
    if kind is None:
        return
    if type_ != wanted:
        detail = f"must be {wanted} if {name} is specified"
        yield invalid(path / "type", type_, detail) if type_ else required(path / "type", detail)
    if kind not in supported:
        yield not_supported(path / name, kind, supported)


def _validate_set_items(items: JSON, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(items, dict):
        return
    detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
    list_type = items.get(_LIST_TYPE)
    if items.get("type") == "array" and list_type not in (None, "atomic"):
        yield invalid(path / _LIST_TYPE, list_type, detail)
    elif items.get("type") == "object" and items.get(_MAP_TYPE) != "atomic":
        yield invalid(path / _MAP_TYPE, list_type, detail)


def has_non_atomic_set(schema: JSONObject) -> bool:
    """Whether a node is a set whose items are not atomic: ``hasNonAtomicSetType``."""
    is_set = schema.get(_LIST_TYPE) == "set"
    return is_set and next(_validate_set_items(schema.get("items"), FieldPath()), None) is not None


def _validate_map_list(schema: JSONObject, path: FieldPath) -> Iterator[FieldError]:
    keys, items = schema.get(_MAP_KEYS) or [], schema.get("items")
    if not keys:
        yield required(path / _MAP_KEYS, "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        yield required(path / "items", "must have a schema if x-kubernetes-list-type is map")
    if not isinstance(items, dict):
        if items is not None:
            detail = "must only have a single schema if x-kubernetes-list-type is map"
            yield invalid(path / "items", go_items(items), detail)
        return
    type_ = items.get("type") or ""
    if type_ != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(path / "items" / "type", type_, detail)
        return
    properties, seen = items.get("properties") or {}, set()
    for key in keys:
        if key not in properties:
            yield invalid(path / _MAP_KEYS, keys, "entries must all be names of item properties")
        elif properties[key].get("type") in ("array", "object"):
            at = (path / "items" / "properties").key(key) / "type"
            yield invalid(at, type_, "must be a scalar type if parent array's x-kubernetes-list-type is map")
        if key in seen:
            yield invalid(path / _MAP_KEYS, keys, "must not contain duplicate entries")
        seen.add(key)


def validate_key_fields(schema: JSONObject, path: FieldPath) -> Iterator[FieldError]:
    """Validate that items of sets and maps, and their keys, always have a value: ``validateMapListKeysMapSet``."""
    items, kind = schema.get("items"), schema.get(_LIST_TYPE)
    if not isinstance(items, dict) or kind not in ("set", "map"):
        return
    if items.get("nullable"):
        yield forbidden(
            path / "items" / "nullable", f"cannot be nullable when x-kubernetes-list-type is {kind}"
        )
    needed, properties = items.get("required") or (), items.get("properties") or {}
    for key in (schema.get(_MAP_KEYS) or ()) if kind == "map" else ():
        if key not in properties:
            continue
        at, start = (
            (path / "items" / "properties").key(key),
            "this property is in x-kubernetes-list-map-keys, so it",
        )
        if key not in needed and properties[key].get("default") is None:
            yield required(at / "default", f"{start} must have a default or be a required property")
        if properties[key].get("nullable"):
            yield forbidden(at / "nullable", f"{start} cannot be nullable")


def _has_newlines(text: str) -> bool:
    return "\n" in text or "\r" in text


def _validate_rule(rule: JSONObject, schema: JSONObject, path: FieldPath) -> Iterator[FieldError]:
    """Validate the fields of a rule without compiling it."""
    source, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
    if not source:
        yield required(path / "rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid(path / "message", message, "must be non-empty if specified")
    elif _has_newlines(message.strip()):
        yield invalid(path / "message", message, "must not contain line breaks")
    elif _has_newlines(source) and not message:
        yield required(path / "message", "message must be specified if rule contains line breaks")
    expression = rule.get("messageExpression") or ""
    if expression and not expression.strip():
        yield required(path / "messageExpression", "messageExpression must be non-empty if specified")
    if rule.get("reason") is not None and rule["reason"] not in _REASONS:
        yield not_supported(path / "reason", json_text(rule["reason"]), _REASONS)
    yield from _validate_field_path(rule.get("fieldPath") or "", schema, path / "fieldPath")


def _validate_field_path(field: str, schema: JSONObject, path: FieldPath) -> Iterator[FieldError]:
    if not field:
        return
    if not field.strip():
        yield invalid(path, field, "must be non-empty if specified")
    if _has_newlines(field):
        yield invalid(path, field, "must not contain line breaks")
    if not conversion_problem(schema):
        try:
            resolve_field(field, structural(schema))
        except FieldReferenceError:
            yield invalid(path, field, "must be a valid path")


_NO_TYPE = (
    "internal error: failed to construct type information for x-kubernetes-validations rules:"
    " unable to convert structural schema to CEL declarations"
)


@functools.lru_cache(4096)
def _is_readable(node: Structural) -> bool:
    """Whether rules can see the values of a node."""
    return declared_type(node, is_root=node.is_embedded) is not None


def _has_elements(node: Structural) -> bool:
    """Tell whether rules see a list or a map in the values of a node, whatever else its schema has."""
    is_map = node.type == "object" and node.additional is not None
    return not node.is_int_or_string and (node.type == "array" or is_map)


def _compile_rules(
    node: Structural, path: FieldPath, place: _Place, *, is_root: bool
) -> Iterator[FieldError]:
    if not all(map(_is_readable, place.scope)):
        yield internal(path / _RULES, _NO_TYPE)
        return
    parent = place.scope[-2] if len(place.scope) > 1 else None
    if parent is not None and node in (parent.items, parent.additional) and not _has_elements(parent):
        yield internal(path / _RULES, "failed to convert to declType for CEL validation rules")
        return
    for index, rule in enumerate(node.rules):
        compiled, at = compile_rule(rule, node, is_root=is_root), (path / _RULES) / index
        cost = rule_cost(compiled, node, place.cardinality, is_root=is_root)
        yield from _errors_of_cost("estimated rule cost", cost.rule, at / "rule", place)
        if compiled.error:
            yield invalid(at / "rule", go_rule(rule), compiled.error)
        if compiled.message_error:
            yield invalid(at / "messageExpression", go_rule(rule), compiled.message_error)
        else:
            what = "estimated messageExpression cost"
            yield from _errors_of_cost(what, cost.message, at / "messageExpression", place)
        yield from _errors_of_old(compiled, at, place)


def _errors_of_cost(what: str, cost: int, at: FieldPath, place: _Place) -> Iterator[FieldError]:
    if place.options.limits_rules and cost > RULE_LIMIT:
        yield forbidden(at, too_expensive(what, cost, RULE_LIMIT))
    place.costs.add(at, cost)


def _errors_of_old(compiled: CompiledRule, at: FieldPath, place: _Place) -> Iterator[FieldError]:
    rule = compiled.written
    if compiled.uses_old and place.uncorrelatable is not None:
        detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.uncorrelatable}"
        yield invalid(at / "rule", rule.get("rule") or "", detail)
    elif not compiled.uses_old and rule.get("optionalOldSelf") is not None:
        detail = "may not be set if oldSelf is not used in rule"
        yield invalid(at / "optionalOldSelf", rule["optionalOldSelf"], detail)
