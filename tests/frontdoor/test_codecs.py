"""AdmissionReview bytes to reviews, and back."""

from __future__ import annotations

import base64
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from pratique.apimachinery import statuses
from pratique.apimachinery.errors import ReviewError
from pratique.apimachinery.requests import Operation
from pratique.cluster.store import ANY_NAMESPACE
from pratique.processes.large_texts import LargeTextReader
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.http.codecs import MAX_TYPE_LENGTH, decode_large_review, decode_review, encode_answer

REQUEST = {
    "uid": "u1",
    "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
    "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
    "subResource": "scale",
    "name": "web",
    "namespace": "shop",
    "operation": "UPDATE",
    "userInfo": {"username": "ann", "uid": "7", "groups": ["g"], "extra": {"k": ["v"]}},
    "object": {"spec": {"replicas": 9007199254740993}},
    "oldObject": {"spec": {"replicas": 1}},
    "dryRun": True,
    "options": {"kind": "UpdateOptions"},
}


def body(version: str = "v1", **changes: Any) -> bytes:
    review = {
        "apiVersion": f"admission.k8s.io/{version}",
        "kind": "AdmissionReview",
        "request": REQUEST | changes,
    }
    return json.dumps(review).encode()


def test_every_field_of_a_request_is_decoded() -> None:
    review = decode_review(body(), ANY_NAMESPACE).review
    assert (review.uid, review.operation, review.name, review.namespace) == (
        "u1",
        Operation.UPDATE,
        "web",
        "shop",
    )
    assert (review.kind.kind, review.resource.resource, review.subresource) == (
        "Deployment",
        "deployments",
        "scale",
    )
    assert (review.user.username, review.user.uid, review.user.groups) == ("ann", "7", ("g",))
    assert review.user.extra == {"k": ("v",)}
    assert review.old_object == {"spec": {"replicas": 1}}
    assert (review.dry_run, review.options) == (True, {"kind": "UpdateOptions"})


def test_integers_beyond_a_double_keep_their_value() -> None:
    assert decode_review(body(), ANY_NAMESPACE).review.object["spec"]["replicas"] == 9007199254740993


@pytest.mark.parametrize(
    "absent", ["object", "oldObject", "options", "dryRun", "userInfo", "name", "namespace"]
)
@pytest.mark.parametrize("how", ["missing", "null"])
def test_optional_fields_may_be_missing_or_null(absent: str, how: str) -> None:
    request = {key: value for key, value in REQUEST.items() if key != absent}
    if how == "null":
        request[absent] = None
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    assert decode_review(json.dumps(review).encode(), ANY_NAMESPACE).review.uid == "u1"


@pytest.fixture(name="reader", scope="module")
def _reader() -> LargeTextReader:
    return LargeTextReader()


BAD = {
    "empty": (b"", "not JSON"),
    "not JSON": (b"{", "not JSON"),
    "not UTF-8": (b'{"apiVersion": "\xff"}', "invalid UTF-8 at byte 16"),
    "invalid UTF-8 inside the object": (body().replace(b'"replicas": 1', b'"\xff": 1'), "invalid UTF-8"),
    "an array": (b"[]", "Expected `object`, got `array`"),
    "no apiVersion": (b'{"kind": "AdmissionReview"}', "missing required field `apiVersion`"),
    "another version": (b'{"apiVersion": "admission.k8s.io/v2", "kind": "AdmissionReview"}', "$.apiVersion"),
    "another kind": (b'{"apiVersion": "admission.k8s.io/v1", "kind": "Pod"}', "$.kind"),
    "no request": (b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}', "has no request"),
    "no uid": (body(uid=""), "has no uid"),
    "uid of another type": (body(uid=3), "$.request.uid"),
    "unknown operation": (body(operation="PATCH"), "$.request.operation"),
    "kind of another type": (body(kind="Pod"), "$.request.kind"),
    "object of another type": (body(object=[1]), "$.request.object"),
    "oldObject of another type": (body(oldObject="x"), "$.request.oldObject"),
    "options of another type": (body(options=7), "$.request.options"),
    "dryRun of another type": (body(dryRun="yes"), "$.request.dryRun"),
    "groups of another type": (body(userInfo={"groups": "g"}), "$.request.userInfo.groups"),
    "nested too deeply": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply"),
}


@pytest.mark.parametrize(("given", "expected"), BAD.values(), ids=BAD)
def test_an_invalid_review_is_refused_with_reason_and_position(given: bytes, expected: str) -> None:
    with pytest.raises(ReviewError) as raised:
        decode_review(given, ANY_NAMESPACE)
    assert expected in str(raised.value)


@pytest.mark.parametrize("given", BAD.values(), ids=BAD)
def test_a_large_invalid_review_has_the_same_error_message(
    given: tuple[bytes, str], reader: LargeTextReader
) -> None:
    with pytest.raises(ReviewError) as as_small:
        decode_review(given[0], ANY_NAMESPACE)
    with pytest.raises(ReviewError) as as_large:
        decode_large_review([given[0]], ANY_NAMESPACE, reader.strip_members)
    assert str(as_large.value) == str(as_small.value)


@pytest.mark.parametrize(
    "field", ["kind.group", "kind.kind", "requestKind.version", "resource.resource", "subResource"]
)
def test_no_type_has_a_name_that_fills_what_is_remembered_of_types(field: str) -> None:
    name, _, part = field.partition(".")
    before = {"group": "g", "version": "v1", "kind": "K", "resource": "r"}
    for length, is_refused in ((MAX_TYPE_LENGTH, False), (MAX_TYPE_LENGTH + 1, True)):
        changes: dict[str, Any] = {name: before | {part: "x" * length} if part else "x" * length}
        given = body(**changes)
        with pytest.raises(ReviewError, match="1024 characters") if is_refused else nullcontext():
            decode_review(given, ANY_NAMESPACE)


def test_an_error_never_repeats_the_object() -> None:
    canary = "canary-4711"
    with pytest.raises(ReviewError) as raised:
        decode_review(body(object=[canary]), ANY_NAMESPACE)
    assert canary not in str(raised.value)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_an_answer_has_the_version_of_the_review(version: str) -> None:
    received = decode_review(body(version), ANY_NAMESPACE)
    answer = json.loads(encode_answer(Decision(uid="u1", allowed=True), received.api_version))
    assert answer == {
        "apiVersion": f"admission.k8s.io/{version}",
        "kind": "AdmissionReview",
        "response": {"uid": "u1", "allowed": True},
    }


def test_a_patch_is_encoded_as_base64_json_patch() -> None:
    operations = ({"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},)
    answer = json.loads(
        encode_answer(Decision(uid="u", allowed=True, patch=operations), "admission.k8s.io/v1")
    )
    assert answer["response"]["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(answer["response"]["patch"])) == list(operations)


def test_a_denial_carries_its_status_and_no_patch() -> None:
    operations = ({"op": "add", "path": "/a", "value": 1},)
    decision = Decision(uid="u", allowed=False, status=statuses.bad_request("no"), patch=operations)
    response = json.loads(encode_answer(decision, "admission.k8s.io/v1"))["response"]
    assert "patch" not in response
    assert (response["status"]["code"], response["status"]["message"]) == (400, "no")


def test_an_answer_has_warnings_and_audit_annotations() -> None:
    decision = Decision(uid="u", allowed=True, warnings=("old",), audit_annotations={"a/b": "c"})
    response = json.loads(encode_answer(decision, "admission.k8s.io/v1"))["response"]
    assert (response["warnings"], response["auditAnnotations"]) == (["old"], {"a_b": "c"})


RECORDED = Path(__file__).parents[1] / "data" / "reviews"


@pytest.mark.parametrize("file", sorted(RECORDED.glob("*.json")), ids=lambda file: file.stem)
def test_recorded_reviews_of_an_api_server_are_decoded(file: Path) -> None:
    assert decode_review(file.read_bytes(), ANY_NAMESPACE).review.kind.kind == "Pod"
