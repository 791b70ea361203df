"""Definitions as an API server holds them: what all versions have alike is moved up, and prints in errors from there.

Sources, below ``k8s.io/apiextensions-apiserver/pkg/apis/apiextensions``: ``v1/conversion.go``, ``types.go`` and
``types_jsonschema.go``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from pratique.apimachinery.field_errors import GoLiteral
from pratique.apimachinery.json_values import (
    JSON,
    JSONObject,
    go_json,
    list_at,
    mapping_at,
    member,
    with_sorted_names,
)

_MOVED: Final = {
    "subresources": "subresources",
    "schema": "validation",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}
"""What of a version is moved up if all versions have it alike, and its name there."""


def internal_spec(spec: JSONObject) -> JSONObject:
    """The spec of a definition as it is validated: ``Convert_v1_CustomResourceDefinitionSpec_To_apiextensions…``."""
    versions: list[JSONObject] = list_at(spec, "versions")
    webhook = mapping_at(spec, "conversion", "webhook")
    internal = {
        **spec,
        "conversion": {
            "strategy": mapping_at(spec, "conversion").get("strategy") or "",
            "webhookClientConfig": webhook.get("clientConfig"),
            "conversionReviewVersions": webhook.get("conversionReviewVersions") or [],
        },
        "versions": versions,
        "has_versions": spec.get("versions") is not None,
    }
    if not versions:
        return internal
    internal["version"] = versions[0].get("name") or ""
    for name, above in _MOVED.items():
        first = _moved(versions[0], name)
        if all(_moved(version, name) == first for version in versions):
            internal[above] = first
            versions = [{key: value for key, value in version.items() if key != name} for version in versions]
    internal["versions"] = versions
    return internal


def _moved(version: JSONObject, name: str) -> JSON:
    """A part of a version; an empty list is the same as none, unlike an empty object."""
    return version.get(name) if version.get(name) != [] else None


def schemas_of(internal: JSONObject) -> Iterator[JSONObject]:
    """All schemas of a spec."""
    for holder in (internal.get("validation"), *(version.get("schema") for version in internal["versions"])):
        if isinstance(holder, dict) and isinstance(holder.get("openAPIV3Schema"), dict):
            yield holder["openAPIV3Schema"]


_LISTS_OF_SCHEMAS = ("allOf", "anyOf", "oneOf")


def nodes_of(schema: JSON) -> Iterator[JSONObject]:
    """All nodes of a schema, the one given first: ``SchemaHas``."""
    if not isinstance(schema, dict):
        return
    yield schema
    items = schema.get("items")
    inner = [*items] if isinstance(items, list) else [items]
    for name in _LISTS_OF_SCHEMAS:
        inner += schema.get(name) or ()
    inner.append(schema.get("not"))
    for name in ("properties", "patternProperties", "definitions", "dependencies"):
        inner += [child for _, child in sorted((schema.get(name) or {}).items())]
    inner += [schema.get("additionalProperties"), schema.get("additionalItems")]
    for child in inner:
        yield from nodes_of(child)


def without_empty_items(definition: JSONObject) -> JSONObject:
    """A definition as it is stored: without what stands for the schema of items and is none."""

    def empty(written: JSONObject) -> Iterator[JSONObject]:
        for version in list_at(written, "spec", "versions"):
            for node in nodes_of(member(version, "schema", "openAPIV3Schema")):
                if node.get("items") in ([], False):
                    yield node

    if next(empty(definition), None) is None:
        return definition
    stored = copy.deepcopy(definition)
    for node in empty(stored):
        del node["items"]
    return stored


def go_versions(spec: JSONObject) -> GoLiteral:
    """The versions of a spec as they print in an error."""
    if spec["has_versions"]:
        return GoLiteral(go_json([_print(_VERSION, version) for version in spec["versions"]]))
    return GoLiteral("null")


def go_schema(schema: JSONObject) -> GoLiteral:
    """A schema as it prints in an error."""
    return GoLiteral(go_json(_schema(schema)))


def go_items(items: JSON) -> GoLiteral:
    """The schema of a list's items, or the schemas, as they print in an error."""
    return GoLiteral(go_json(_schema_or_list(items)))


def go_rule(rule: JSONObject) -> GoLiteral:
    """A rule as it prints in an error."""
    return GoLiteral(go_json(_print(_RULE, rule)))


_Printer = Callable[[JSON], JSON]
_Fields = Mapping[str, tuple[str, JSON, "_Printer | None"]]
"""Go names of fields in their order, with their names in JSON, their zero values and how they print."""


def _print(fields: _Fields, value: JSON) -> JSONObject:
    printed = {}
    for go_name, (name, zero, print_value) in fields.items():
        found = value.get(name)
        printed[go_name] = zero if found is None else found if print_value is None else print_value(found)
    return printed


def _printer(fields: _Fields) -> _Printer:
    return lambda value: _print(fields, value)


def _list_of(print_value: _Printer) -> _Printer:
    return lambda values: [print_value(value) for value in values]


def _map_of(print_value: _Printer) -> _Printer:
    return lambda values: {name: print_value(value) for name, value in sorted(values.items())}


def _schema(value: JSON) -> JSON:
    return _print(_SCHEMA, value)


def _schema_or_bool(value: JSON) -> JSON:
    return {"Allows": value is not False, "Schema": _schema(value) if isinstance(value, dict) else None}


def _schema_or_list(value: JSON) -> JSON:
    if isinstance(value, list):
        return {"Schema": None, "JSONSchemas": [_schema(item) for item in value]}
    return {"Schema": None if value is False else _schema(value), "JSONSchemas": None}


def _schema_or_strings(value: JSON) -> JSON:
    is_list = isinstance(value, list)
    schema = _schema(value) if isinstance(value, dict) else None
    return {"Schema": schema, "Property": value if is_list else None}


_RULE: _Fields = {
    "Rule": ("rule", "", None),
    "Message": ("message", "", None),
    "MessageExpression": ("messageExpression", "", None),
    "Reason": ("reason", None, None),
    "FieldPath": ("fieldPath", "", None),
    "OptionalOldSelf": ("optionalOldSelf", None, None),
}
_DOCS: _Fields = {"Description": ("description", "", None), "URL": ("url", "", None)}
_SCHEMA: _Fields = {
    "ID": ("id", "", None),
    "Schema": ("$schema", "", None),
    "Ref": ("$ref", None, None),
    "Description": ("description", "", None),
    "Type": ("type", "", None),
    "Nullable": ("nullable", False, None),
    "Format": ("format", "", None),
    "Title": ("title", "", None),
    "Default": ("default", None, with_sorted_names),
    "Maximum": ("maximum", None, None),
    "ExclusiveMaximum": ("exclusiveMaximum", False, None),
    "Minimum": ("minimum", None, None),
    "ExclusiveMinimum": ("exclusiveMinimum", False, None),
    "MaxLength": ("maxLength", None, None),
    "MinLength": ("minLength", None, None),
    "Pattern": ("pattern", "", None),
    "MaxItems": ("maxItems", None, None),
    "MinItems": ("minItems", None, None),
    "UniqueItems": ("uniqueItems", False, None),
    "MultipleOf": ("multipleOf", None, None),
    "Enum": ("enum", None, with_sorted_names),
    "MaxProperties": ("maxProperties", None, None),
    "MinProperties": ("minProperties", None, None),
    "Required": ("required", None, None),
    "Items": ("items", None, _schema_or_list),
    "AllOf": ("allOf", None, _list_of(_schema)),
    "OneOf": ("oneOf", None, _list_of(_schema)),
    "AnyOf": ("anyOf", None, _list_of(_schema)),
    "Not": ("not", None, _schema),
    "Properties": ("properties", None, _map_of(_schema)),
    "AdditionalProperties": ("additionalProperties", None, _schema_or_bool),
    "PatternProperties": ("patternProperties", None, _map_of(_schema)),
    "Dependencies": ("dependencies", None, _map_of(_schema_or_strings)),
    "AdditionalItems": ("additionalItems", None, _schema_or_bool),
    "Definitions": ("definitions", None, _map_of(_schema)),
    "ExternalDocs": ("externalDocs", None, _printer(_DOCS)),
    "Example": ("example", None, with_sorted_names),
    "XPreserveUnknownFields": ("x-kubernetes-preserve-unknown-fields", None, None),
    "XEmbeddedResource": ("x-kubernetes-embedded-resource", False, None),
    "XIntOrString": ("x-kubernetes-int-or-string", False, None),
    "XListMapKeys": ("x-kubernetes-list-map-keys", None, None),
    "XListType": ("x-kubernetes-list-type", None, None),
    "XMapType": ("x-kubernetes-map-type", None, None),
    "XValidations": ("x-kubernetes-validations", None, _list_of(_printer(_RULE))),
}
GO_NAMES: Mapping[str, str] = {name: go_name for go_name, (name, _, _) in _SCHEMA.items()}
"""The Go names of the members of a schema, in Go's order."""
ZEROS: Mapping[str, JSON] = {name: zero for name, zero, _ in _SCHEMA.values()}
"""What Go has for members that a schema does not have; None where what is empty is something else."""

_SCALE: _Fields = {
    "SpecReplicasPath": ("specReplicasPath", "", None),
    "StatusReplicasPath": ("statusReplicasPath", "", None),
    "LabelSelectorPath": ("labelSelectorPath", None, None),
}
_SUBRESOURCES: _Fields = {"Status": ("status", None, None), "Scale": ("scale", None, _printer(_SCALE))}
_COLUMN: _Fields = {
    "Name": ("name", "", None),
    "Type": ("type", "", None),
    "Format": ("format", "", None),
    "Description": ("description", "", None),
    "Priority": ("priority", 0, None),
    "JSONPath": ("jsonPath", "", None),
}
_SELECTABLE: _Fields = {"JSONPath": ("jsonPath", "", None)}
_VERSION: _Fields = {
    "Name": ("name", "", None),
    "Served": ("served", False, None),
    "Storage": ("storage", False, None),
    "Deprecated": ("deprecated", False, None),
    "DeprecationWarning": ("deprecationWarning", None, None),
    "Schema": ("schema", None, _printer({"OpenAPIV3Schema": ("openAPIV3Schema", None, _schema)})),
    "Subresources": ("subresources", None, _printer(_SUBRESOURCES)),
    "AdditionalPrinterColumns": ("additionalPrinterColumns", None, _list_of(_printer(_COLUMN))),
    "SelectableFields": ("selectableFields", None, _list_of(_printer(_SELECTABLE))),
}
