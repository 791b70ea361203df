"""CustomResourceDefinitions in v1 and v1beta1.

The tables are those of ``k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/conversion_test.go`` (Kubernetes,
Apache-2.0).
"""

from __future__ import annotations

from typing import Any

import pytest

from support.conversions import converted

OLD, NEW = "apiextensions.k8s.io/v1beta1", "apiextensions.k8s.io/v1"
ONE: dict[str, Any] = {"name": "v1", "served": True, "storage": True}
TWO: dict[str, Any] = {"name": "v2", "served": True, "storage": False}


def definition(api_version: str, **spec: Any) -> dict[str, Any]:
    names = {"plural": "orders", "kind": "Order"}
    return {
        "apiVersion": api_version,
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "orders.example.com"},
        "spec": {"group": "example.com", "names": names, **spec},
    }


def old(**spec: Any) -> dict[str, Any]:
    return definition(OLD, **{"preserveUnknownFields": False, **spec})


def new(**spec: Any) -> dict[str, Any]:
    return definition(NEW, **spec)


SAME = {
    "validation": ("schema", {"openAPIV3Schema": {"type": "object"}}),
    "subresources": ("subresources", {"scale": {"specReplicasPath": "spec.replicas"}}),
    "additionalPrinterColumns": ("additionalPrinterColumns", [{"name": "column1"}]),
}


@pytest.mark.parametrize(("of_all", "named"), SAME.items(), ids=SAME)
def test_v1_repeats_shared_fields_in_every_version(of_all: str, named: tuple[str, Any]) -> None:
    name, value = named
    before = old(version="v1", versions=[ONE, TWO], **{of_all: value})
    after = new(versions=[ONE | {name: value}, TWO | {name: value}])
    assert converted(before, NEW) == after
    assert converted(after, OLD) == before


@pytest.mark.parametrize("named", SAME.values(), ids=SAME)
def test_fields_that_differ_stay_in_their_version(named: tuple[str, Any]) -> None:
    name, value = named
    before = new(versions=[ONE | {name: value}, TWO])
    assert converted(before, OLD) == old(version="v1", versions=[ONE | {name: value}, TWO])
    assert converted(converted(before, OLD), NEW) == before


def test_a_single_version_becomes_a_list() -> None:
    assert converted(old(version="v1"), NEW) == new(versions=[ONE])


def test_a_definition_without_versions_gains_none() -> None:
    assert converted(new(), OLD) == old()
    assert converted(old(), NEW) == new()


def test_v1beta1_preserves_unknown_fields_by_default() -> None:
    assert converted(definition(OLD), NEW) == new(preserveUnknownFields=True)
    assert converted(new(preserveUnknownFields=True), OLD) == old(preserveUnknownFields=True)


def test_selectable_fields_stay_beside_differing_schemas() -> None:
    fields = {"selectableFields": [{"jsonPath": ".spec.color"}]}
    schema = {"schema": {"openAPIV3Schema": {"type": "object"}}}
    apart = new(versions=[ONE | schema | fields, TWO | fields])
    assert converted(apart, OLD)["spec"]["versions"] == [ONE | schema | fields, TWO | fields]
    together = new(versions=[ONE | schema | fields, TWO | schema | fields])
    assert converted(together, OLD) == old(
        version="v1", versions=[ONE, TWO], validation=schema["schema"], **fields
    )


def test_a_printer_columns_path_is_renamed() -> None:
    before = old(version="v1", versions=[ONE], additionalPrinterColumns=[{"name": "a", "JSONPath": ".a"}])
    after = new(versions=[ONE | {"additionalPrinterColumns": [{"name": "a", "jsonPath": ".a"}]}])
    assert converted(before, NEW) == after
    assert converted(after, OLD) == before


def test_v1_nests_the_webhook_of_a_conversion() -> None:
    client = {"url": "https://localhost/convert"}
    flat = {"strategy": "Webhook", "webhookClientConfig": client, "conversionReviewVersions": ["v1"]}
    nested = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
    }
    before, after = old(version="v1", versions=[ONE], conversion=flat), new(versions=[ONE], conversion=nested)
    assert converted(before, NEW) == after
    assert converted(after, OLD) == before
    plain = new(versions=[ONE], conversion={"strategy": "None"})
    assert converted(plain, OLD)["spec"]["conversion"] == {"strategy": "None"}
