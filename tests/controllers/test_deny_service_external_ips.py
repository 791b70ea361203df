"""DenyServiceExternalIPs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.controllers.deny_service_external_ips import CONTROLLER
from support.admissions import Admission, admit, denial, forbidden_text, review_of

REFUSAL = "Use of external IPs is denied by admission control"
ADDRESSES = st.lists(st.sampled_from(["192.0.2.1", "192.0.2.2", "2001:db8::1"]), max_size=4)


def service(*addresses: str) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "shop", "namespace": "web"},
        "spec": {"externalIPs": list(addresses), "ports": [{"port": 80}]},
    }


def reviewed(new: JSON, old: JSON = None, **fields: JSON) -> Admission:
    request: JSONObject = {
        "operation": "CREATE" if old is None else "UPDATE",
        "kind": {"group": "", "version": "v1", "kind": "Service"},
        "resource": {"group": "", "version": "v1", "resource": "services"},
        "namespace": "web",
        "name": "shop",
        "object": new,
        "oldObject": old,
    }
    return admit(CONTROLLER, review_of(request | fields))


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (service("192.0.2.1"), None),
        (service("192.0.2.1"), service()),
        (service("192.0.2.1", "192.0.2.2"), service("192.0.2.1")),
        (service("192.0.2.1", "192.0.2.2"), service("192.0.2.1", "192.0.2.3")),
        (service("192.0.2.1"), {"kind": "Service"}),
        (service("2001:DB8::1"), service("2001:db8::1")),
    ],
)
def test_new_external_ips_are_denied(new: JSONObject, old: JSON) -> None:
    assert forbidden_text(reviewed(new, old), 'services "shop"') == REFUSAL


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (service(), None),
        ({"kind": "Service"}, None),
        (service(), service("192.0.2.1")),
        (service("192.0.2.1"), service("192.0.2.1")),
        (service("192.0.2.1", "192.0.2.2"), service("192.0.2.2", "192.0.2.1")),
        (service("192.0.2.2"), service("192.0.2.1", "192.0.2.2")),
        (service("192.0.2.1", "192.0.2.1"), service("192.0.2.1")),
    ],
)
def test_services_may_keep_and_drop_external_ips(new: JSONObject, old: JSON) -> None:
    assert reviewed(new, old).allowed


@given(ADDRESSES, ADDRESSES)
def test_an_update_is_denied_exactly_if_it_adds_an_address(new: list[str], old: list[str]) -> None:
    assert reviewed(service(*new), service(*old)).allowed is all(address in old for address in new)


@pytest.mark.parametrize("wrong", ["object", "oldObject"])
def test_another_type_is_an_internal_error(wrong: str) -> None:
    pair: JSONObject = {"object": service(), "oldObject": service()}
    pair[wrong] = {"apiVersion": "v1", "kind": "Pod"}
    found = reviewed(pair["object"], pair["oldObject"])
    text = "Internal error occurred: Expected Service resource, got: /v1, Kind=Service"
    assert denial(found) == (500, "InternalError", text)


@pytest.mark.parametrize(
    "fields",
    [
        {"operation": "DELETE"},
        {"subResource": "status", "operation": "UPDATE"},
        {"resource": {"group": "", "version": "v1", "resource": "endpoints"}},
        {"resource": {"group": "serving.example.com", "version": "v1", "resource": "services"}},
    ],
)
def test_other_requests_are_ignored(fields: JSONObject) -> None:
    assert reviewed(service("192.0.2.1"), **fields).allowed
