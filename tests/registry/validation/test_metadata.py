"""Metadata of objects, on creation and update."""

from __future__ import annotations

from typing import Any

import pytest

from pratique.apimachinery.field_errors import ROOT, FieldError
from pratique.registry.validation.metadata import (
    subdomain_name,
    validate_label_selector,
    validate_metadata,
    validate_metadata_update,
)

PATH = ROOT / "metadata"
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1"}


def errors(**metadata: Any) -> list[str]:
    found = validate_metadata(
        {"name": "a", "namespace": "b"} | metadata, subdomain_name, PATH, namespaced=True
    )
    return [short(error) for error in found]


def short(error: FieldError) -> str:
    return str(error).partition(" (e.g.")[0]


CASES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"name": "", "generateName": "a-"}, []),
    ({"name": ""}, ["metadata.name: Required value: name or generateName is required"]),
    ({"namespace": ""}, ["metadata.namespace: Required value"]),
    ({"finalizers": ["example.com/x", "kubernetes"]}, []),
    (
        {"finalizers": ["mine"]},
        [
            (
                'metadata.finalizers[0]: Invalid value: "mine": name is neither a standard finalizer name nor is'
                " it fully qualified"
            )
        ],
    ),
    ({"ownerReferences": [OWNER]}, []),
    (
        {"ownerReferences": [OWNER | {"uid": ""}]},
        ["metadata.ownerReferences[0].uid: Required value: must not be empty"],
    ),
    ({"annotations": {"Example.com/X": "1"}}, []),
    (
        {"annotations": {"a": "x" * (256 * 1024)}},
        ["metadata.annotations: Too long: may not be more than 262144 bytes"],
    ),
    (
        {"managedFields": [{"operation": "Steal"}]},
        [
            (
                'metadata.managedFields[0].operation: Unsupported value: "Steal": supported values: "Apply",'
                ' "Update"'
            )
        ],
    ),
]


@pytest.mark.parametrize(("metadata", "expected"), CASES, ids=str)
def test_metadata_of_a_new_object_is_validated(metadata: dict[str, Any], expected: list[str]) -> None:
    assert errors(**metadata) == expected


def test_two_controllers_of_one_object_are_refused() -> None:
    owners = [OWNER | {"controller": True}, OWNER | {"controller": True, "name": "other", "uid": "2"}]
    (error,) = validate_metadata(
        {"name": "a", "namespace": "b", "ownerReferences": owners}, subdomain_name, PATH, namespaced=True
    )
    detail = 'Only one reference can have Controller set to true. Found "true" in references for'
    assert error.detail == f"{detail} ReplicaSet/web and ReplicaSet/other"


@pytest.mark.parametrize("field", ["name", "namespace", "uid", "creationTimestamp"])
def test_an_update_keeps_who_an_object_is(field: str) -> None:
    old = {"name": "a", "namespace": "b", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    (error,) = validate_metadata_update(old | {field: "other"}, old, PATH)
    assert str(error) == f'metadata.{field}: Invalid value: "other": field is immutable'


def test_an_object_that_is_being_deleted_gets_no_new_finalizers() -> None:
    old = {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x.io/a"]}
    (error,) = validate_metadata_update(old | {"finalizers": ["x.io/a", "x.io/b"]}, old, PATH)
    assert error.detail.endswith('found new finalizers []string{"x.io/b"}')


@pytest.mark.parametrize(
    ("requirement", "fault"),
    [
        ({"key": "a", "operator": "In", "values": ["b"]}, ""),
        ({"key": "a", "operator": "In"}, "must be specified when `operator` is 'In' or 'NotIn'"),
        (
            {"key": "a", "operator": "Exists", "values": ["b"]},
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        ({"key": "a", "operator": "Like"}, "not a valid selector operator"),
    ],
)
def test_requirements_of_selectors_are_validated(requirement: dict[str, Any], fault: str) -> None:
    found = validate_label_selector({"matchExpressions": [requirement]}, ROOT / "selector")
    assert [error.detail for error in found] == ([fault] if fault else [])


@pytest.mark.parametrize("field", ["deletionTimestamp", "deletionGracePeriodSeconds"])
def test_no_update_marks_an_object_as_deleted(field: str) -> None:
    old = {"name": "a", "namespace": "b"}
    (error,) = validate_metadata_update(old | {field: 0}, old, PATH)
    assert str(error) == f"metadata.{field}: Invalid value: 0: field is immutable"
