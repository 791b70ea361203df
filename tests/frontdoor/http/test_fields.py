"""Every field of an AdmissionRequest, taken away in turn; and the operations that no patch may answer."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator

import pytest

from pratique.apimachinery.json_values import JSON
from pratique.cluster.files import load_cluster
from pratique.configuration.settings import ChainSettings
from pratique_frontdoor.engines.engine import open_local
from support.front_doors.reviews import POD, review_body, review_document
from support.front_doors.running import Door, open_door

POD_KIND = {"group": "", "version": "v1", "kind": "Pod"}
PODS = {"group": "", "version": "v1", "resource": "pods"}
FULL: JSON = {
    "requestKind": POD_KIND,
    "requestResource": PODS,
    "requestSubResource": "",
    "subResource": "",
    "oldObject": POD,
    "operation": "UPDATE",
    "dryRun": True,
    "userInfo": {"username": "ann", "uid": "7", "groups": ["g"], "extra": {"scopes": ["a"]}},
}
REQUIRED = {("uid",), ("kind",), ("resource",), ("operation",)}
NESTED = ("kind", "resource", "requestKind", "requestResource", "userInfo")


def fields() -> list[tuple[str, ...]]:
    request = review_document(**FULL)["request"]
    nested = [(parent, name) for parent in NESTED for name in request[parent]]
    return [*((name,) for name in request), *nested]


@pytest.fixture(scope="module")
def chain() -> Iterator[Door]:
    settings = ChainSettings(enable_admission_plugins=("AlwaysPullImages",))
    with open_door(open_local(settings, load_cluster(None))) as door:
        yield door


def test_every_field_of_a_review_is_removed_in_turn() -> None:
    assert len(fields()) == 31


@pytest.mark.parametrize("path", ["/validate", "/mutate"])
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize("field", fields(), ids=".".join)
def test_a_missing_field_is_answered_or_a_bad_request(
    chain: Door, path: str, version: str, field: tuple[str, ...]
) -> None:
    document = copy.deepcopy(review_document(version, **FULL))
    parent = document["request"] if len(field) == 1 else document["request"][field[0]]
    del parent[field[-1]]
    answer = chain.post(path, json.dumps(document).encode())
    assert answer.code == (400 if field in REQUIRED else 200)
    if field in REQUIRED:
        assert field[0] in answer.json["message"]
    else:
        assert answer.json["response"]["uid"] == document["request"]["uid"]


@pytest.mark.parametrize("path", ["/validate", "/mutate", "/admit"])
@pytest.mark.parametrize(
    "request_fields",
    [
        {"operation": "DELETE", "object": None, "oldObject": POD},
        {
            "operation": "CONNECT",
            "subResource": "exec",
            "object": {"kind": "PodExecOptions", "apiVersion": "v1"},
        },
        {"operation": "UPDATE", "oldObject": POD, "subResource": "status"},
    ],
    ids=["DELETE", "CONNECT", "status"],
)
def test_an_unchanged_object_is_answered_without_a_patch(
    chain: Door, path: str, request_fields: JSON
) -> None:
    response = chain.post(path, review_body(**request_fields)).json["response"]
    assert "patch" not in response
    assert "patchType" not in response


def test_only_the_mutating_endpoint_answers_with_a_patch(chain: Door) -> None:
    answered = {path: chain.post(path).json["response"] for path in ("/mutate", "/validate")}
    assert "patch" in answered["/mutate"]
    assert "patch" not in answered["/validate"]
