"""Group, version and kind of objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.kinds import (
    GroupVersionKind,
    GroupVersionResource,
    kind_of,
    parse_api_version,
)

if TYPE_CHECKING:
    from pratique.apimachinery.json_values import JSON


@pytest.mark.parametrize(
    ("api_version", "group", "version"),
    [("v1", "", "v1"), ("apps/v1", "apps", "v1"), ("example.com/v1alpha1", "example.com", "v1alpha1")],
)
def test_an_api_version_is_split_and_written_back(api_version: str, group: str, version: str) -> None:
    assert parse_api_version(api_version) == (group, version)
    assert GroupVersionKind(group, version, "Thing").api_version == api_version
    assert kind_of({"apiVersion": api_version, "kind": "Thing"}) == GroupVersionKind(group, version, "Thing")


@pytest.mark.parametrize("api_version", ["/v1", "apps/", "/", "a/b/c", "a//b"])
def test_a_malformed_api_version_is_refused_in_kubernetes_words(api_version: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_api_version(api_version)
    assert str(raised.value) == (
        f'apiVersion: unexpected GroupVersion string: {api_version}: write "v1" or "<group>/<version>"'
    )


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (None, "a Kubernetes object is a mapping, not null"),
        ([], "a Kubernetes object is a mapping, not a list"),
        ({"kind": "Pod"}, 'apiVersion not set: every Kubernetes object names one, such as "v1" or "apps/v1"'),
        ({"apiVersion": "v1", "kind": ""}, 'kind not set: every Kubernetes object names one, such as "Pod"'),
        (
            {"apiVersion": 1, "kind": "Pod"},
            'apiVersion: must be a string such as "v1" or "apps/v1", not a number',
        ),
        ({"apiVersion": "v1", "kind": []}, 'kind: must be a string such as "Pod", not a list'),
    ],
)
def test_an_object_without_a_type_is_refused_with_an_example(document: JSON, problem: str) -> None:
    with pytest.raises(InputError) as raised:
        kind_of(document)
    assert str(raised.value) == problem


def test_types_print_as_in_go() -> None:
    assert str(GroupVersionKind("apps", "v1", "Deployment")) == "apps/v1, Kind=Deployment"
    assert str(GroupVersionKind("", "v1", "Pod")) == "/v1, Kind=Pod"
    assert str(GroupVersionResource("apps", "v1", "deployments")) == "apps/v1, Resource=deployments"
