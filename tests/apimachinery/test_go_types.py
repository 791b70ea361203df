"""The Go types of objects."""

from __future__ import annotations

import pytest

from pratique.apimachinery.go_formats import go_type
from pratique.apimachinery.json_values import JSON


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"apiVersion": "v1", "kind": "Service"}, "*core.Service"),
        ({"kind": "Service"}, "*core.Service"),
        ({"apiVersion": "apps/v1", "kind": "Deployment"}, "*apps.Deployment"),
        ({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}, "*coordination.Lease"),
        ({}, "<nil>"),
        (None, "<nil>"),
        ([], "<nil>"),
    ],
)
def test_a_go_type_is_named_by_group_and_kind(document: JSON, expected: str) -> None:
    assert go_type(document) == expected
