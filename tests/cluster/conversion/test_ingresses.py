"""Ingresses in v1 and v1beta1."""

from __future__ import annotations

from typing import Any

import pytest

from pratique.apimachinery.errors import ConversionError
from support.conversions import converted, without_type

OLD = ["networking.k8s.io/v1beta1", "extensions/v1beta1"]
NEW = "networking.k8s.io/v1"
BUCKET = {"apiGroup": "example.com", "kind": "Bucket", "name": "static"}


def ingress(api_version: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": "Ingress", "metadata": {"name": "web"}, "spec": spec}


def with_path(api_version: str, backend: dict[str, Any], **path: Any) -> dict[str, Any]:
    paths = [{"path": "/", **path, "backend": backend}]
    return ingress(api_version, ingressClassName="a", rules=[{"host": "a.example", "http": {"paths": paths}}])


@pytest.mark.parametrize("old", OLD)
@pytest.mark.parametrize(
    ("flat", "nested"),
    [
        ({"serviceName": "web", "servicePort": 80}, {"service": {"name": "web", "port": {"number": 80}}}),
        (
            {"serviceName": "web", "servicePort": "http"},
            {"service": {"name": "web", "port": {"name": "http"}}},
        ),
        ({"serviceName": "web", "servicePort": "80"}, {"service": {"name": "web", "port": {"name": "80"}}}),
        ({"serviceName": "web", "servicePort": 0}, {"service": {"name": "web", "port": {}}}),
        ({"serviceName": "", "servicePort": 80}, {"service": {"name": "", "port": {"number": 80}}}),
        ({"resource": BUCKET}, {"resource": BUCKET}),
        ({}, {}),
    ],
)
def test_v1_nests_the_service_of_a_backend(old: str, flat: dict[str, Any], nested: dict[str, Any]) -> None:
    before, after = with_path(old, flat, pathType="Prefix"), with_path(NEW, nested, pathType="Prefix")
    assert converted(before, NEW) == after
    assert converted(after, old) == before
    assert converted(ingress(old, backend=flat), NEW) == ingress(NEW, defaultBackend=nested)
    assert converted(ingress(NEW, defaultBackend=nested), old) == ingress(old, backend=flat)


def test_a_v1beta1_path_without_a_type_is_implementation_specific() -> None:
    backend = {"serviceName": "web", "servicePort": 80}
    path = converted(with_path(OLD[0], backend), NEW)["spec"]["rules"][0]["http"]["paths"][0]
    assert path["pathType"] == "ImplementationSpecific"


def test_a_rule_without_paths_is_unchanged() -> None:
    before = ingress(OLD[0], rules=[{"host": "a.example"}], tls=[{"hosts": ["a.example"]}])
    assert without_type(converted(before, NEW)) == without_type(before)


def test_both_v1beta1_groups_convert_alike() -> None:
    before = with_path(OLD[0], {"serviceName": "web", "servicePort": "http"}, pathType="Exact")
    assert without_type(converted(before, OLD[1])) == without_type(before)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"backend": "web"}, "backend: must be a mapping, not a string"),
        ({"rules": {"host": "a"}}, "rules: must be a list, not a mapping"),
        ({"backend": {"serviceName": 1}}, "serviceName: must be a string, not a number"),
        (
            {"backend": {"serviceName": "a", "servicePort": True}},
            "servicePort: must be an integer, not a boolean",
        ),
    ],
)
def test_a_field_of_the_wrong_type_is_refused(spec: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConversionError) as raised:
        converted(ingress(OLD[0], **spec), NEW)
    assert str(raised.value) == problem
