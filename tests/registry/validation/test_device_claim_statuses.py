# ruff: noqa: ISC004 - messages are longer than lines
"""What schedulers and drivers write into the status of ResourceClaims, in the words of a real kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from pratique.apimachinery.json_values import JSONObject
from support.manifest_decisions import decide_manifest

CLAIM: JSONObject = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "a", "namespace": "shop"},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}},
}
DEVICE = {"driver": "d.example.com", "pool": "p", "device": "v"}
RESULT = {**DEVICE, "request": "r"}
CONSUMER = {"resource": "pods", "name": "p", "uid": "u"}
SHARE = "9b2f0f2c-2d3a-4c53-9d5d-6f5a3b1c2d4e"


def allocated(**changes: Any) -> JSONObject:
    return {"allocation": {"devices": {"results": [{**RESULT, **changes}]}}}


def told(**changes: Any) -> JSONObject:
    return {**allocated(), "devices": [{**DEVICE, **changes}]}


def problems(status: JSONObject, before: JSONObject | None = None) -> str:
    old = {**CLAIM, "status": before or {}}
    decision = decide_manifest({**CLAIM, "status": status}, old=old, subresource="status")
    return "" if decision.status is None else decision.status.message.partition(" is invalid: ")[2]


RESULTS = "status.allocation.devices.results[0]"
NO_ADDRESS = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"


@pytest.mark.parametrize(
    ("status", "errors"),
    [
        (told(data={"a": 1}, networkData={"ips": ["10.0.0.1/24"]}), ""),
        (allocated(shareID=SHARE, skipNodeOperations=["x"]), ""),
        (allocated(request="s"), f'{RESULTS}.request: Invalid value: "s": must be the name of a request in the claim or'
                                 " the name of a request and a subrequest separated by '/'"),
        (allocated(pool="", shareID="x"), f'[{RESULTS}.pool: Required value, {RESULTS}.shareID: Invalid value: "x":'
                                          " must be a lowercase UUID in 8-4-4-4-12 format]"),
        (allocated(bindingConditions=["a"]), f"{RESULTS}.bindingFailureConditions: Invalid value: null:"
                                             " bindingFailureConditions are required to use bindingConditions"),
        (allocated(adminAccess=True), f"{RESULTS}.adminAccess: Forbidden: admin access to devices requires the"
                                      " `resource.kubernetes.io/admin-access: true` label on the containing namespace"),
        ({"allocation": {"nodeSelector": {"nodeSelectorTerms": []}}},
         "status.allocation.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term"),
        ({"allocation": {"devices": {"config": [{"source": "X", "requests": ["r"], "opaque": {"driver": "d"}}]}}},
         "[status.allocation.devices.config[0].opaque.parameters: Required value,"
         ' status.allocation.devices.config[0].source: Unsupported value: "X": supported values: "FromClaim",'
         ' "FromClass"]'),
        ({"reservedFor": [CONSUMER]},
         "status.reservedFor: Forbidden: may not be specified when `allocated` is not set"),
        ({**allocated(), "reservedFor": [CONSUMER, CONSUMER, {}]},
         "[status.reservedFor[2].resource: Required value, status.reservedFor[2].name: Required value,"
         ' status.reservedFor[2].uid: Required value, status.reservedFor[1]: Duplicate value: {"resource":"pods",'
         '"name":"p","uid":"u"}]'),
        (told(device="w"), 'status.devices[0]: Invalid value: {"Driver":"d.example.com","Pool":"p","Device":"w",'
                           '"ShareID":""}: must be an allocated device in the claim'),
        (told(data=[1]), 'status.devices[0].data: Invalid value: "<value omitted>": must be a valid JSON object'),
        (told(networkData={"ips": ["10.0.0.1", "::ffff:10.0.0.1/120"]}),
         f'[status.devices[0].networkData.ips[0]: Invalid value: "10.0.0.1": {NO_ADDRESS},'
         ' status.devices[0].networkData.ips[1]: Invalid value: "::ffff:10.0.0.1/120": must be in canonical form'
         ' ("10.0.0.1/24")]'),
    ],
)  # fmt: skip
def test_what_a_claim_is_given_is_held_against_its_requests(status: JSONObject, errors: str) -> None:
    assert problems(status) == errors


def test_what_is_allocated_stays_until_it_is_given_back() -> None:
    assert problems(allocated(device="w"), allocated()) == (
        "status.allocation: Invalid value: null: field cannot be modified once set"
    )
    assert problems({}, told()) == ""
