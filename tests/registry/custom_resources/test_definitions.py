"""Definitions as a kube-apiserver of 1.37.2 answered them: what it said of a definition with something changed."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from pratique.apimachinery import statuses
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.patches import apply_patch
from pratique.registry.custom_resources.definitions import VALIDATIONS
from pratique.registry.defaults.defaulting import with_defaults
from support.admissions import review_of

_FILE = Path(__file__).parents[2] / "data" / "custom_resources" / "definitions.jsonl"
_CASES = [json.loads(line) for line in _FILE.read_text().splitlines()]
_VALIDATION = VALIDATIONS["apiextensions.k8s.io", "customresourcedefinitions"]
_SPEC_SCHEMA = {
    "type": "object",
    "properties": {"port": {"type": "string", "maxLength": 8}, "crew": {"type": "integer"}},
}
_DEFINITION: JSONObject = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "ships.lab.example.com"},
    "spec": {
        "group": "lab.example.com",
        "scope": "Namespaced",
        "names": {"plural": "ships", "singular": "ship", "kind": "Ship"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC_SCHEMA}}},
            }
        ],
    },
}
_REVIEW = review_of(
    {
        "operation": "CREATE",
        "kind": {"group": "apiextensions.k8s.io", "version": "v1", "kind": "CustomResourceDefinition"},
        "resource": {
            "group": "apiextensions.k8s.io",
            "version": "v1",
            "resource": "customresourcedefinitions",
        },
        "object": _DEFINITION,
    }
)


def _defaulted(definition: JSONObject) -> JSONObject:
    return with_defaults(_REVIEW.kind, definition)


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.get("message", "valid")[-60:])
def test_definitions_are_answered_as_an_api_server_does(case: JSONObject) -> None:
    """Every cause, in its order, and the warnings; what rules cost is not estimated, so no case has that."""
    definition = _defaulted(apply_patch(_DEFINITION, case["patch"]))
    errors = list(_VALIDATION.create(definition, _REVIEW))
    name = definition["metadata"]["name"]
    status = statuses.invalid("apiextensions.k8s.io", "CustomResourceDefinition", name, errors)
    assert (status.message if errors else "") == case.get("message", "")
    if not errors:
        assert list(_VALIDATION.warnings(definition, None, _REVIEW)) == case.get("warnings", [])


def _stored(**spec: object) -> JSONObject:
    """The definition as it is stored and established."""
    stored = copy.deepcopy(_DEFINITION)
    stored["metadata"]["resourceVersion"] = "1"
    stored["spec"] |= spec
    stored["status"] = {"conditions": [{"type": "Established", "status": "True"}], "storedVersions": ["v1"]}
    return _defaulted(stored)


def _with_field(definition: JSONObject, schema: JSONObject) -> JSONObject:
    changed = copy.deepcopy(definition)
    version = changed["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["x"] = schema
    return changed


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        ({}, []),
        ({"scope": "Cluster"}, ['spec.scope: Invalid value: "Cluster": field is immutable']),
        (
            {"group": "other.example.com"},
            ['spec.group: Invalid value: "other.example.com": field is immutable'],
        ),
        (
            {"names": {"plural": "boats", "singular": "ship", "kind": "Boat", "listKind": "ShipList"}},
            [
                'spec.names.kind: Invalid value: "Boat": field is immutable',
                'spec.names.plural: Invalid value: "boats": field is immutable',
            ],
        ),
    ],
)
def test_what_objects_are_found_by_stays(spec: JSONObject, errors: list[str]) -> None:
    """Scope and kind of an established definition, group and plural name of any."""
    found = _VALIDATION.update(_stored(**spec), _stored(), _REVIEW)
    assert [str(error) for error in found] == errors


def test_a_version_that_objects_are_stored_in_must_remain() -> None:
    """Until it is taken out of the status."""
    stored = _stored()
    stored["status"]["storedVersions"] = ["v1beta1", "v1"]
    errors = [str(error) for error in _VALIDATION.update(stored, stored, _REVIEW)]
    assert len(errors) == 1
    assert errors[0].startswith(
        'status.storedVersions[0]: Invalid value: "v1beta1": missing from spec.versions;'
    )


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"},
        {"type": "object", "properties": {"a": {"type": "string"}}, "default": {"b": 1}},
        {
            "type": "array",
            "items": {"type": "object", "properties": {"a": {"type": "string"}}},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["a"],
        },
    ],
)
def test_what_a_stored_schema_has_already_may_stay(schema: JSONObject) -> None:
    """Checks that came later do not refuse what was accepted before them."""
    assert list(_VALIDATION.update(_with_field(_stored(), schema), _stored(), _REVIEW))
    stored = _with_field(_stored(), schema)
    assert list(_VALIDATION.update(stored, stored, _REVIEW)) == []


def test_formats_are_warned_of_once() -> None:
    """When they come in."""
    definition = _with_field(_stored(), {"type": "string", "format": "colour"})
    assert list(_VALIDATION.warnings(definition, _stored(), _REVIEW)) == ['unrecognized format "colour"']
    assert list(_VALIDATION.warnings(definition, definition, _REVIEW)) == []
