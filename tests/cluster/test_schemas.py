"""The schemas of built-in and custom kinds."""

from __future__ import annotations

import pytest

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.cluster.api_resources import built_in_resources
from pratique.cluster.schemas import (
    ListType,
    MapType,
    MergeStrategy,
    Scalar,
    Structure,
    Type,
    built_in_type,
    schema_of,
)
from pratique.cluster.store import ANY_NAMESPACE, ObjectStore

POD = GroupVersionKind("", "v1", "Pod")
WIDGET = GroupVersionKind("example.com", "v1", "Widget")


def at(schema: Type | None, *path: str) -> Type:
    """The type of a field; ``[]`` is an item of a list."""
    assert schema is not None
    for step in path:
        if isinstance(schema, ListType):
            assert step == "[]"
            schema = schema.items
        else:
            assert isinstance(schema, Structure)
            schema = schema.fields[step]
    return schema


def definition(schema: JSON) -> JSONObject:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def widget(**properties: JSON) -> Structure:
    schema = {"type": "object", "properties": properties}
    found = schema_of(WIDGET, ObjectStore([definition(schema)]))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (("metadata", "labels"), MapType(Scalar.STRING)),
        (("metadata", "creationTimestamp"), Scalar.DATE_TIME),
        (("metadata", "finalizers"), ListType(Scalar.STRING, MergeStrategy.SET)),
        (("spec", "nodeSelector"), MapType(Scalar.STRING, atomic=True)),
        (("spec", "overhead"), MapType(Scalar.QUANTITY)),
        (("spec", "hostNetwork"), Scalar.BOOLEAN),
        (("spec", "priority"), Scalar.INTEGER),
        (("spec", "containers", "[]", "args"), ListType(Scalar.STRING)),
        (("spec", "containers", "[]", "livenessProbe", "httpGet", "port"), Scalar.INT_OR_STRING),
    ],
)
def test_fields_of_built_in_kinds_have_types(path: tuple[str, ...], kind: Type) -> None:
    assert at(schema_of(POD, ANY_NAMESPACE), *path) == kind


def test_map_lists_have_keys_and_key_defaults() -> None:
    ports = at(schema_of(POD, ANY_NAMESPACE), "spec", "containers", "[]", "ports")
    assert isinstance(ports, ListType)
    assert (ports.merge, ports.keys) == (MergeStrategy.MAP, ("containerPort", "protocol"))
    assert isinstance(ports.items, Structure)
    assert ports.items.defaults == {"containerPort": 0, "protocol": "TCP"}


def test_a_field_may_override_how_its_type_is_merged() -> None:
    volume = schema_of(GroupVersionKind("", "v1", "PersistentVolume"), ANY_NAMESPACE)
    claim = at(volume, "spec", "claimRef")
    assert isinstance(claim, Structure)
    assert not claim.atomic
    assert built_in_type("api.core.v1.ObjectReference").atomic


def test_types_may_be_recursive() -> None:
    crd = schema_of(GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), ANY_NAMESPACE)
    schema = at(crd, "spec", "versions", "[]", "schema", "openAPIV3Schema")
    assert at(schema, "not") is schema


def test_every_current_kind_has_a_schema() -> None:
    current = {
        type_.kind for type_ in built_in_resources() if type_.removed_in is None and not type_.subresource
    }
    assert [kind for kind in current if schema_of(kind, ANY_NAMESPACE) is None] == []


def test_unknown_kinds_have_no_schema() -> None:
    assert schema_of(WIDGET, ANY_NAMESPACE) is None
    other = GroupVersionKind("example.com", "v2", "Widget")
    assert schema_of(other, ObjectStore([definition({"type": "object"})])) is None


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ({"type": "string"}, Scalar.STRING),
        ({"type": "string", "format": "byte"}, Scalar.BYTES),
        ({"type": "string", "format": "date"}, Scalar.DATE),
        ({"type": "string", "format": "duration"}, Scalar.DURATION),
        ({"type": "integer", "format": "int32"}, Scalar.INTEGER),
        ({"type": "number"}, Scalar.NUMBER),
        ({"x-kubernetes-int-or-string": True}, Scalar.INT_OR_STRING),
        ({"x-kubernetes-preserve-unknown-fields": True}, Scalar.ANY),
        ({"type": "array", "items": {"type": "string"}}, ListType(Scalar.STRING)),
        (
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            ListType(Scalar.STRING, MergeStrategy.SET),
        ),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, MapType(Scalar.INTEGER)),
        ({"type": "object", "additionalProperties": True}, MapType(Scalar.ANY)),
        (
            {
                "type": "object",
                "additionalProperties": {"type": "integer"},
                "x-kubernetes-map-type": "atomic",
            },
            MapType(Scalar.INTEGER, atomic=True),
        ),
    ],
)
def test_fields_of_custom_kinds_have_types(written: JSON, kind: Type) -> None:
    assert widget(field=written).fields["field"] == kind


def test_every_custom_object_has_object_metadata() -> None:
    assert at(widget(), "metadata", "labels") == MapType(Scalar.STRING)


def test_embedded_objects_are_whole_objects() -> None:
    written = {"type": "object", "x-kubernetes-embedded-resource": True}
    assert at(widget(template=written), "template", "metadata", "labels") == MapType(Scalar.STRING)


def test_defaults_and_openness_are_kept() -> None:
    inner = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "required": ["a"],
        "properties": {"a": {"type": "string"}, "b": {"type": "string", "default": "x"}},
    }
    found = at(widget(spec=inner), "spec")
    assert isinstance(found, Structure)
    assert (found.required, found.defaults, found.open) == (frozenset({"a"}), {"b": "x"}, True)


def test_a_definition_without_a_schema_allows_anything() -> None:
    found = schema_of(WIDGET, ObjectStore([definition(None)]))
    assert found is not None
    assert found.open
