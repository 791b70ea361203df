"""Native and extended resources."""

from __future__ import annotations

import pytest

from pratique.apimachinery.quantities import is_extended_resource, is_native_resource


@pytest.mark.parametrize(
    "name", ["cpu", "memory", "hugepages-2Mi", "pods", "kubernetes.io/x", "a.kubernetes.io/batch"]
)
def test_native_resources_have_no_domain_or_kubernetes_io(name: str) -> None:
    assert is_native_resource(name)
    assert not is_extended_resource(name)


@pytest.mark.parametrize("name", ["example.com/gpu", "a.b/c-d", "k8s.io/x"])
def test_extended_resources_have_a_domain(name: str) -> None:
    assert is_extended_resource(name)


@pytest.mark.parametrize(
    "name",
    ["requests.example.com/gpu", "example.com/", "example.com/a/b", "UPPER.com/x", "e.com/" + "x" * 64],
)
def test_a_name_that_no_quota_could_hold_is_no_extended_resource(name: str) -> None:
    assert not is_native_resource(name)
    assert not is_extended_resource(name)


def test_a_domain_may_be_as_long_as_the_quota_prefix_leaves() -> None:
    label = "x" * 60
    domain = f"{label}.{label}.{label}.{label}"  # 243 bytes, with the prefix 252 of the 253 that fit
    assert is_extended_resource(f"{domain}/a")
    assert not is_extended_resource(f"{domain}.yz/a")
