"""ResourceClaims, templates and slices in v1beta1 and after.

The first table is that of ``pkg/apis/resource/v1beta1/conversion_test.go`` (Kubernetes, Apache-2.0).
"""

from __future__ import annotations

from typing import Any

import pytest

from pratique.apimachinery.errors import ConversionError
from support.conversions import converted

OLD = "resource.k8s.io/v1beta1"
NEW = ["resource.k8s.io/v1", "resource.k8s.io/v1beta2"]
EXACT = {
    "deviceClassName": "class-a",
    "selectors": [{"cel": {"expression": 'device.attributes["driver-a"].exists'}}],
    "allocationMode": "ExactCount",
    "count": 2,
}
SUBREQUESTS = [{"name": "sub-1", **EXACT}, {"name": "sub-2", **EXACT, "count": 1}]


def claim(api_version: str, request: dict[str, Any], *, template: bool = False) -> dict[str, Any]:
    spec: dict[str, Any] = {"devices": {"requests": [{"name": "foo", **request}], "constraints": []}}
    kind = "ResourceClaimTemplate" if template else "ResourceClaim"
    return {"apiVersion": api_version, "kind": kind, "spec": {"spec": spec} if template else spec}


@pytest.mark.parametrize("new", NEW)
@pytest.mark.parametrize("template", [False, True], ids=["claim", "template"])
@pytest.mark.parametrize(
    ("flat", "nested"),
    [
        pytest.param(EXACT, {"exactly": EXACT}, id="without alternatives"),
        pytest.param(
            {"firstAvailable": SUBREQUESTS}, {"firstAvailable": SUBREQUESTS}, id="with alternatives"
        ),
        pytest.param({"adminAccess": False}, {"exactly": {"adminAccess": False}}, id="admin access"),
        pytest.param({}, {}, id="nothing asked for"),
    ],
)
def test_exact_requests_are_nested_since_v1beta2(
    new: str, flat: dict[str, Any], nested: dict[str, Any], *, template: bool
) -> None:
    before, after = claim(OLD, flat, template=template), claim(new, nested, template=template)
    assert converted(before, new) == after
    assert converted(after, OLD) == before


def test_empty_fields_make_no_exact_request() -> None:
    before = claim(
        OLD, {"deviceClassName": "", "allocationMode": "", "count": 0, "firstAvailable": SUBREQUESTS}
    )
    assert converted(before, NEW[0]) == claim(NEW[0], {"firstAvailable": SUBREQUESTS})


def test_v1beta1_nests_device_fields_under_basic() -> None:
    fields = {"attributes": {"model": {"string": "a"}}, "capacity": {"memory": {"value": "1Gi"}}}
    spec = {"driver": "driver-a", "nodeName": "node-1"}
    before = {"apiVersion": OLD, "kind": "ResourceSlice"}
    old = before | {"spec": spec | {"devices": [{"name": "gpu-0", "basic": fields}]}}
    new = before | {"apiVersion": NEW[0], "spec": spec | {"devices": [{"name": "gpu-0", **fields}]}}
    assert converted(old, NEW[0]) == new
    assert converted(new, OLD) == old


@pytest.mark.parametrize("kind", ["ResourceClaim", "DeviceClass", "ResourceSlice"])
def test_alpha_versions_are_not_converted(kind: str) -> None:
    before = {"apiVersion": "resource.k8s.io/v1alpha3", "kind": kind, "spec": {}}
    with pytest.raises(ConversionError) as raised:
        converted(before, OLD)
    assert str(raised.value) == (
        f"unable to convert resource.k8s.io/v1alpha3, Kind={kind} to {OLD}, Kind={kind}: "
        "this conversion is not supported"
    )
