"""ResourceClaims, their templates, and ResourceSlices: v1beta1 has no level for what is asked or told exactly.

Source: ``pkg/apis/resource/v1beta1/conversion.go``. ``v1beta2`` and ``v1`` have the same fields; ``v1alpha3`` and what
was before it are not converted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.versioned_kinds.forms import SHARED, Form
from pratique.versioned_kinds.shapes import changed, changed_items, mapping, without

if TYPE_CHECKING:
    from pratique.json_values import JSONObject
    from pratique.versioned_kinds.forms import Change, Family

_EXACT = (
    "deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity",
)  # fmt: skip
_BESIDE_BASIC = ("name",)


def _request_to_shared(request: JSONObject) -> JSONObject:
    exact = {name: request[name] for name in _EXACT if request.get(name) is not None}
    plain = without(request, "exactly", *_EXACT)
    return {**plain, "exactly": exact} if any(_counts(value) for value in exact.values()) else plain


def _counts(value: object) -> bool:
    """A field without a pointer in Go cannot tell empty from absent."""
    return value not in ("", 0) or value is False


def _request_from_shared(request: JSONObject) -> JSONObject:
    return without(request, "exactly", *_EXACT) | mapping(request.get("exactly"), "exactly")


def _device_to_shared(device: JSONObject) -> JSONObject:
    return without(device, "basic") | mapping(device.get("basic"), "basic")


def _device_from_shared(device: JSONObject) -> JSONObject:
    named = {name: value for name, value in device.items() if name in _BESIDE_BASIC}
    return {**named, "basic": without(device, "basic", *_BESIDE_BASIC)}


def _in_claim(change: Change) -> Change:
    return lambda claim: changed(claim, "spec", _in_spec(change))


def _in_template(change: Change) -> Change:
    return lambda template: changed(template, "spec", lambda outer: changed(outer, "spec", _in_spec(change)))


def _in_spec(change: Change) -> Change:
    return lambda spec: changed(spec, "devices", lambda devices: changed_items(devices, "requests", change))


def _in_slice(change: Change) -> Change:
    return lambda one: changed(one, "spec", lambda spec: changed_items(spec, "devices", change))


_GROUP = "resource.k8s.io"
_ALIKE: Family = {f"{_GROUP}/v1": SHARED, f"{_GROUP}/v1beta2": SHARED}

CLAIMS: Family = {
    **_ALIKE,
    f"{_GROUP}/v1beta1": Form(_in_claim(_request_to_shared), _in_claim(_request_from_shared)),
}
TEMPLATES: Family = {
    **_ALIKE,
    f"{_GROUP}/v1beta1": Form(_in_template(_request_to_shared), _in_template(_request_from_shared)),
}
SLICES: Family = {
    **_ALIKE,
    f"{_GROUP}/v1beta1": Form(_in_slice(_device_to_shared), _in_slice(_device_from_shared)),
}
DEVICE_CLASSES: Family = {**_ALIKE, f"{_GROUP}/v1beta1": SHARED}
