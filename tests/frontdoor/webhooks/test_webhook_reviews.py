from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given

from pratique.admission.reviews import Review
from pratique.apimachinery.errors import CallError
from pratique.apimachinery.json_values import JSON, NULL, Document, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.requests import Operation, UserInfo
from pratique_frontdoor.webhooks.reviews import build_review
from support import vector_cases
from support.services.reviews import review_of
from support.strategies.reviews import reviews

V1 = ("v1",)
EVERY_REQUEST = frozenset(
    {
        "uid",
        "kind",
        "resource",
        "requestKind",
        "requestResource",
        "operation",
        "userInfo",
        "object",
        "oldObject",
    }
    | {"dryRun", "options"}
)
"""The members that no review is sent without."""


def sent(review: Review, versions: tuple[str, ...] = V1) -> JSON:
    return json.loads(build_review(review, versions).body)


def review_of_case(case: JSONObject) -> Review:
    request, invocation = case["request"], case["invocation"]
    return msgspec.structs.replace(
        review_of(request["object"], operation=Operation(request["operation"])),
        kind=GroupVersionKind(**invocation["kind"]),
        resource=GroupVersionResource(**invocation["resource"]),
        subresource=invocation["subresource"],
        request_kind=GroupVersionKind(**request["kind"]),
        request_resource=GroupVersionResource(**request["resource"]),
        request_subresource=request["subresource"],
        name=request["name"],
        namespace=request["namespace"],
        user=msgspec.convert(request["userInfo"], UserInfo),
        old_object_document=Document.from_data(request["oldObject"]),
        options_document=Document.from_data(request["options"]),
    )


@pytest.mark.parametrize("case", vector_cases.kind("reviewRequest"), ids=vector_cases.source)
def test_the_request_is_the_one_the_api_server_builds(case: JSONObject) -> None:
    given, expected = case["input"], case["expected"]
    review = sent(review_of_case(given), tuple(given["admissionReviewVersions"]))
    assert review["apiVersion"] == f"admission.k8s.io/{expected['reviewVersion']}"
    assert review["request"].pop("uid")
    assert review["request"] == expected["request"]


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        (("v1",), "v1"),
        (("v1beta1",), "v1beta1"),
        (("v1beta1", "v1"), "v1beta1"),
        (("v2", "v1alpha1", "v1", "v1beta1"), "v1"),
    ],
)
def test_the_first_known_version_of_the_webhook_is_used(versions: tuple[str, ...], expected: str) -> None:
    review = build_review(review_of(), versions)
    assert review.version == expected
    assert json.loads(review.body)["apiVersion"] == f"admission.k8s.io/{expected}"


@pytest.mark.parametrize("versions", [(), ("v2",), ("",), ("V1",)])
def test_a_webhook_without_a_known_version_is_not_called(versions: tuple[str, ...]) -> None:
    with pytest.raises(CallError) as raised:
        build_review(review_of(), versions)
    assert str(raised.value) == (
        "could not create admission objects: "
        "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
    )


def test_both_versions_have_the_same_request() -> None:
    requests = [sent(review_of(), (version,))["request"] for version in ("v1", "v1beta1")]
    for request in requests:
        del request["uid"]
    assert requests[0] == requests[1]


def test_every_call_has_its_own_uid() -> None:
    built = [build_review(review_of(), V1) for _ in range(20)]
    assert len({review.uid for review in built}) == 20
    assert [json.loads(review.body)["request"]["uid"] for review in built] == [review.uid for review in built]


@pytest.mark.parametrize(
    ("field", "member"),
    [
        ("name", "name"),
        ("namespace", "namespace"),
        ("subresource", "subResource"),
        ("subresource", "requestSubResource"),
    ],
)
def test_an_empty_string_is_omitted(field: str, member: str) -> None:
    changed: dict[str, Any] = {field: "status"}
    assert sent(msgspec.structs.replace(review_of(), **changed))["request"][member] == "status"
    changed = {field: ""}
    assert member not in sent(msgspec.structs.replace(review_of(), **changed))["request"]


def test_an_unknown_user_is_an_empty_object() -> None:
    assert sent(msgspec.structs.replace(review_of(), user=UserInfo()))["request"]["userInfo"] == {}


def test_the_original_request_is_the_same_without_conversion() -> None:
    request = sent(msgspec.structs.replace(review_of(), subresource="exec"))["request"]
    assert request["requestKind"] == request["kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert request["requestResource"] == request["resource"]
    assert request["requestSubResource"] == request["subResource"] == "exec"


def test_a_connect_has_no_options_and_is_not_a_dry_run() -> None:
    review = msgspec.structs.replace(review_of(operation=Operation.CONNECT), options_document=NULL)
    request = sent(review)["request"]
    assert request["options"] is None
    assert request["dryRun"] is False


def test_a_delete_has_no_object() -> None:
    assert sent(review_of(operation=Operation.DELETE))["request"]["object"] is None


def test_an_object_is_sent_byte_for_byte() -> None:
    spelled = b'{ "a" : 1.0e2,\n"a":1, "b":"\\u00e4" , "big":123456789012345678901234567890}'
    assert spelled in build_review(review_of(spelled), V1).body


@given(reviews())
def test_every_review_can_be_sent_with_all_required_members(review: Review) -> None:
    request = sent(review)["request"]
    assert request.keys() >= EVERY_REQUEST
    assert request["object"] == review.object
    assert request["oldObject"] == review.old_object
    assert request["options"] == review.options
    assert "" not in (request.get("name"), request.get("namespace"), request.get("subResource"))
