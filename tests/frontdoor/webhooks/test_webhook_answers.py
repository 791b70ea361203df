from __future__ import annotations

import base64
import contextlib
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.controllers import Phase
from pratique.admission.results import ALLOWED, Denied, Failed, FailureKind, Outcome, Patched
from pratique.apimachinery.errors import BadAnswerError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.statuses import Status, StatusCause, StatusDetails
from pratique_frontdoor.webhooks.answers import (
    ReviewDocument,
    StatusDocument,
    WebhookAnswer,
    denial,
    read_answer,
    to_outcome,
    verify_answer,
)
from pratique_frontdoor.webhooks.reviews import ReviewVersion, SentReview
from support import vector_cases
from support.answer_types import ADMISSION, EMPTY, UID, VERSIONS, TypedAnswer, typed_answers
from support.services.reviews import review_of
from support.strategies.json_values import objects

PHASES = {"mutating": Phase.MUTATE, "validating": Phase.VALIDATE}
ADD = [{"op": "add", "path": "/foo", "value": "bar"}]


def encoded(patch: JSON) -> str:
    text = patch if isinstance(patch, str) else json.dumps(patch)
    return base64.b64encode(text.encode()).decode()


def read(
    review: JSON, *, phase: Phase = Phase.MUTATE, version: ReviewVersion = "v1", uid: str = "123"
) -> WebhookAnswer:
    body = review if isinstance(review, bytes) else json.dumps(review).encode()
    return read_answer(body, SentReview(uid, version, b""), phase)


def refusal(review: JSON, *, phase: Phase = Phase.MUTATE, version: ReviewVersion = "v1") -> str:
    with pytest.raises(BadAnswerError) as raised:
        read(review, phase=phase, version=version)
    return str(raised.value)


def verify(
    review: JSONObject, *, phase: Phase = Phase.MUTATE, version: ReviewVersion = "v1", uid: str = "123"
) -> WebhookAnswer:
    """Check an answer as it is after the decoder, which refuses other types before."""
    document = msgspec.convert(review, ReviewDocument)
    patch = document.response.patch_bytes() if document.response is not None else b""
    return verify_answer(document, patch, SentReview(uid, version, b""), phase)


def invalidity(review: JSONObject, *, phase: Phase = Phase.MUTATE, version: ReviewVersion = "v1") -> str:
    with pytest.raises(BadAnswerError) as raised:
        verify(review, phase=phase, version=version)
    return str(raised.value)


def v1(**response: JSON) -> JSONObject:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "123", "allowed": True, **response},
    }


def outcome(review: JSON, *, operation: Operation = Operation.CREATE) -> Outcome:
    return to_outcome("w.example.com", read(review), review_of(operation=operation))


def with_patch(review: JSONObject) -> JSONObject:
    response = dict(review.get("response") or {})
    if "patchText" in response:
        response["patch"] = encoded(response.pop("patchText"))
    return {**review, **({"response": response} if response else {})}


@pytest.mark.parametrize("case", vector_cases.kind("response"), ids=vector_cases.source)
def test_an_answer_is_checked_as_the_api_server_checks_it(case: JSONObject) -> None:
    given, expected = case["input"], case["expected"]
    phase, version = PHASES[given["webhookType"]], given["reviewVersionSent"]
    if not expected["valid"]:
        text = invalidity(with_patch(given["review"]), phase=phase, version=version)
        assert expected["errorContains"] in text
        return
    answer = verify(with_patch(given["review"]), phase=phase, version=version, uid=given["requestUID"])
    assert answer.allowed is expected["allowed"]
    assert answer.patch.decode() == expected.get("patchText", "")
    assert answer.patch_type == expected.get("patchType", "")


INVALID = "received invalid webhook response: "
V1_REVIEW = "admission.k8s.io/v1, Kind=AdmissionReview"
GVK = f"{INVALID}expected webhook response of {V1_REVIEW}, got "


@pytest.mark.parametrize(
    ("review", "phase", "text"),
    [
        ({"apiVersion": "admission.k8s.io/v1"}, "mutating", "webhook response was absent"),
        ({**v1(), "response": None}, "mutating", "webhook response was absent"),
        (v1(uid="1234"), "mutating", 'expected response.uid="123", got "1234"'),
        (v1(uid=None), "mutating", 'expected response.uid="123", got ""'),
        (v1(patch=encoded(ADD)), "mutating", "webhook returned response.patch but not response.patchType"),
        (v1(patchType="JSONPatch"), "mutating", "webhook returned response.patchType but not response.patch"),
        (v1(patchType=""), "mutating", "webhook returned response.patchType but not response.patch"),
        (
            v1(patch=encoded(ADD), patchType=""),
            "mutating",
            'webhook returned invalid response.patchType of ""',
        ),
        (v1(patch=encoded(ADD)), "validating", "validating webhook may not return response.patch"),
        (v1(patchType=""), "validating", "validating webhook may not return response.patchType"),
    ],
)
def test_an_invalid_v1_answer_is_refused(review: JSON, phase: str, text: str) -> None:
    assert refusal(review, phase=PHASES[phase]) == INVALID + text


@pytest.mark.parametrize("answer", list(typed_answers(ADMISSION)), ids=repr)
@pytest.mark.parametrize("phase", Phase)
def test_an_answer_of_another_type_is_refused_as_the_api_server_refuses_it(
    answer: TypedAnswer, phase: Phase
) -> None:
    body, version = answer.body.replace(UID.encode(), b"123"), answer.version
    error = f"{FAILED}{answer.error}" if answer.error else ""
    if version == "v1" and not error and answer.claimed != V1_REVIEW:
        error = f"{GVK}{answer.claimed}"
    if error:
        assert refusal(body, phase=phase, version=version) == error
    else:
        assert read(body, phase=phase, version=version).allowed


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("body", EMPTY)
def test_an_answer_that_claims_nothing_and_holds_nothing_is_refused(
    body: bytes, version: ReviewVersion
) -> None:
    assert refusal(body, version=version) == f"{INVALID}webhook response was absent"


def test_the_uid_is_checked_before_the_type_and_the_type_before_the_patch() -> None:
    review = v1(uid="1234", patch=encoded(ADD)) | {"kind": "Pod"}
    assert invalidity(review).endswith('got "1234"')
    review["response"]["uid"] = "123"
    assert invalidity(review) == f"{GVK}admission.k8s.io/v1, Kind=Pod"


def test_an_invalid_denial_is_refused_as_an_invalid_answer() -> None:
    assert refusal(v1(allowed=False, patch=encoded(ADD))).startswith(INVALID)


@pytest.mark.parametrize(
    "review",
    [
        {"response": {"allowed": True}},
        {"response": {"allowed": True, "uid": "another"}},
        {"response": {"allowed": True, "patchType": "JSONPatch"}},
    ],
)
def test_a_v1beta1_answer_needs_only_a_response(review: JSON) -> None:
    assert read(review, version="v1beta1").allowed
    assert read(review, version="v1beta1", phase=Phase.VALIDATE).allowed


@pytest.mark.parametrize("patch_type", [None, "", "JSONPatch", "Foo"])
def test_a_v1beta1_patch_is_always_a_json_patch(patch_type: str | None) -> None:
    review = {"response": {"allowed": True, "patch": encoded(ADD), "patchType": patch_type}}
    answer = read(review, version="v1beta1")
    assert (json.loads(answer.patch), answer.patch_type) == (ADD, "JSONPatch")


FAILED = "failed to call webhook: "
PARSE = f"{FAILED}couldn't get version/kind; json parse error: "
MISMATCH = f"{FAILED}json: cannot unmarshal "
META = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"{", f"{PARSE}unexpected end of JSON input"),
        (b"{allowed: true}", f"{PARSE}invalid character 'a' looking for beginning of object key string"),
        (b'{"kind":"AdmissionReview"} trailing', f"{PARSE}invalid character 't' after top-level value"),
        (b"404 page not found", f"{PARSE}json: cannot unmarshal string into Go value of type {META}"),
        (b"[]", f"{PARSE}json: cannot unmarshal array into Go value of type {META}"),
        (b"true", f"{PARSE}json: cannot unmarshal bool into Go value of type {META}"),
        (b"12", f"{PARSE}json: cannot unmarshal number into Go value of type {META}"),
        (b"x" * 100_000, f"{PARSE}json: cannot unmarshal string into Go value of type {META}"),
        (b'{"kind":1}', f"{PARSE}json: cannot unmarshal number into Go struct field .kind of type string"),
        (b'{"apiVersion":"a/b/c"}', f"{FAILED}unexpected GroupVersion string: a/b/c"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, f"{PARSE}invalid character '{{' exceeded max depth"),
        (
            b'{"response":{"uid":"\\ud800","more":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
            f"{PARSE}invalid character '{{' exceeded max depth",
        ),
    ],
    ids=lambda value: value[:20] if isinstance(value, bytes) else "",
)
def test_an_answer_that_is_not_an_admission_review_is_refused(body: bytes, text: str) -> None:
    assert refusal(body) == text


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ({"allowed": "yes"}, "string into Go struct field AdmissionResponse.response.allowed of type bool"),
        ({"allowed": 1}, "number into Go struct field AdmissionResponse.response.allowed of type bool"),
        ({"uid": {}}, "object into Go struct field AdmissionResponse.response.uid of type types.UID"),
        (
            {"patchType": []},
            "array into Go struct field AdmissionResponse.response.patchType of type v1.PatchType",
        ),
        ({"status": "no"}, "string into Go struct field AdmissionResponse.response.status of type v1.Status"),
        (
            {"status": {"code": "403"}},
            "string into Go struct field Status.response.status.code of type int32",
        ),
        (
            {"status": {"message": 1}},
            "number into Go struct field Status.response.status.message of type string",
        ),
        (
            {"status": {"details": {"causes": [{"field": 1}]}}},
            "number into Go struct field StatusCause.response.status.details.causes.field of type string",
        ),
        (
            {"warnings": "w"},
            "string into Go struct field AdmissionResponse.response.warnings of type []string",
        ),
        ({"warnings": [1]}, "number into Go struct field AdmissionResponse.response.warnings of type string"),
        (
            {"auditAnnotations": {"a": True}},
            "bool into Go struct field AdmissionResponse.response.auditAnnotations of type string",
        ),
        (
            {"patch": {"op": "add"}},
            "object into Go struct field AdmissionResponse.response.patch of type []uint8",
        ),
        ({"patch": ADD}, "object into Go struct field AdmissionResponse.response.patch of type uint8"),
        ({"patch": [256]}, "number 256 into Go struct field AdmissionResponse.response.patch of type uint8"),
    ],
)
def test_a_member_of_another_type_is_refused(response: JSONObject, text: str) -> None:
    assert refusal(v1(**response)) == MISMATCH + text


def test_a_response_of_another_type_is_refused() -> None:
    text = "array into Go struct field AdmissionReview.response of type v1.AdmissionResponse"
    assert refusal({**v1(), "response": []}) == MISMATCH + text


def test_a_patch_that_is_not_base64_is_refused() -> None:
    assert (
        refusal(v1(patch='[{"op"', patchType="JSONPatch")) == f"{FAILED}illegal base64 data at input byte 0"
    )


def test_a_patch_may_be_an_array_of_bytes() -> None:
    assert read(v1(patch=list(b"[]"), patchType="JSONPatch")).patch == b"[]"


def test_a_null_member_counts_as_missing() -> None:
    response = {"patch": None, "patchType": None, "status": None, "warnings": None, "auditAnnotations": None}
    assert read(v1(**response)) == WebhookAnswer(allowed=True)
    assert not read(v1(allowed=None)).allowed


def test_null_items_are_empty_strings() -> None:
    answer = read(v1(warnings=[None, "w"], auditAnnotations={"k": None}))
    assert (answer.warnings, answer.audit_annotations) == (("", "w"), {"k": ""})


def test_unknown_members_are_ignored() -> None:
    assert read({**v1(more={"a": [1]}), "request": {"uid": 1}, "metadata": None}).allowed


@pytest.mark.parametrize(
    ("spelled", "text"),
    [
        (b'"caf\xe9"', "caf\ufffd"),
        (b'"\\ud800"', "\ufffd"),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b'"\\udc00x\xff"', "\ufffdx\ufffd"),
    ],
)
def test_invalid_unicode_is_replaced(spelled: bytes, text: str) -> None:
    body = json.dumps(v1(warnings=["@"])).encode().replace(b'"@"', spelled)
    assert read(body).warnings == (text,)


def test_a_number_of_thousands_of_digits_is_no_answer() -> None:
    text = json.dumps({**v1(warnings=["@"]), "more": "#"})
    body = text.encode().replace(b"@", b"\xff").replace(b'"#"', b"9" * 5000)
    assert "a number is out of the range of float64" in refusal(body)


def test_an_answer_may_be_yaml() -> None:
    body = b"apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\nresponse: {uid: '123', allowed: true}\n"
    assert read(body).allowed


def test_an_answer_in_bad_yaml_is_refused() -> None:
    assert refusal(b"a: b: c").startswith(f"{FAILED}error converting YAML to JSON: yaml: line 1: ")


@pytest.mark.parametrize("case", vector_cases.kind("statusError"), ids=vector_cases.source)
def test_a_denial_has_the_message_of_the_api_server(case: JSONObject) -> None:
    given, expected = case["input"], case["expected"]
    status = denial(given["webhookName"], StatusDocument(**given["status"]))
    assert {name: getattr(status, name) for name in expected} == expected


def test_a_denial_without_a_status_has_no_explanation() -> None:
    text = 'admission webhook "w" denied the request without explanation'
    assert denial("w", None) == Status(status="Failure", message=text, code=400)


def test_reason_and_details_of_a_denial_reach_the_user_unchanged() -> None:
    cause = {"reason": "FieldValueInvalid", "message": "too big", "field": "spec.replicas"}
    details = {"name": "web", "group": "apps", "kind": "deployments", "uid": "u", "retryAfterSeconds": 3}
    given = {
        "code": 422,
        "reason": "Invalid",
        "status": "Oops",
        "details": {**details, "causes": [cause, None]},
    }
    decided = outcome(v1(allowed=False, status={**given, "metadata": {"resourceVersion": "7"}})).decision
    assert decided == Denied(
        Status(
            metadata={"resourceVersion": "7"},
            status="Oops",
            message='admission webhook "w.example.com" denied the request: Invalid',
            reason="Invalid",
            details=StatusDetails(
                "web", "apps", "deployments", "u", (StatusCause(**cause), StatusCause()), 3
            ),
            code=422,
        )
    )


def test_the_status_of_an_allowed_answer_is_ignored() -> None:
    assert outcome(v1(status={"code": 500, "message": "no"})).decision == ALLOWED


def test_the_patch_of_a_denial_is_ignored() -> None:
    review = v1(allowed=False, patch=encoded("nonsense"), patchType="Foo")
    assert isinstance(outcome(review).decision, Denied)


def test_a_patch_changes_the_object() -> None:
    review = v1(patch=encoded(ADD), patchType="JSONPatch")
    assert outcome(review).decision == Patched(tuple(ADD))


@pytest.mark.parametrize("patch", ["[]", "null"])
def test_an_empty_patch_counts_as_no_patch(patch: str) -> None:
    review = v1(patch=encoded(patch), patchType="JSONPatch")
    assert outcome(review).decision == ALLOWED
    assert outcome(review, operation=Operation.DELETE).decision == ALLOWED


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ("nonsense", "invalid character 'o' in literal null (expecting 'u')"),
        ('{"op":"add"}', "json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
        ("[1]", "json: cannot unmarshal number into Go value of type jsonpatch.Operation"),
    ],
)
def test_an_undecodable_patch_fails_and_keeps_warnings_and_annotations(patch: str, text: str) -> None:
    result = outcome(
        v1(patch=encoded(patch), patchType="JSONPatch", warnings=["w"], auditAnnotations={"k": "v"})
    )
    reason = f"received undecodable patch in webhook response: {text}"
    assert result.decision == Failed(FailureKind.ERROR, reason)
    assert (result.warnings, result.audit_annotations) == (("w",), {"k": "v"})


@pytest.mark.parametrize("patch_type", ["Foo", "JSONPatch ", "jsonpatch", "MergePatch"])
def test_a_patch_of_another_type_is_a_failure(patch_type: str) -> None:
    decided = outcome(v1(patch=encoded(ADD), patchType=patch_type)).decision
    assert decided == Failed(FailureKind.ERROR, f'unsupported patch type "{patch_type}"', 400)


@pytest.mark.parametrize("patch_type", ["JSONPatch", "Foo"])
def test_a_patch_without_an_object_is_left_to_the_chain(patch_type: str) -> None:
    review = v1(patch=encoded(ADD), patchType=patch_type)
    assert isinstance(outcome(review, operation=Operation.DELETE).decision, Patched)


def test_warnings_and_annotations_of_a_denial_are_kept() -> None:
    result = outcome(v1(allowed=False, warnings=["w"], auditAnnotations={"k": "v"}))
    assert (result.warnings, result.audit_annotations) == (("w",), {"k": "v"})


@given(st.binary(max_size=60) | st.text().map(str.encode) | objects().map(json.dumps).map(str.encode))
def test_every_answer_is_decoded_or_a_bad_answer(body: bytes) -> None:
    with contextlib.suppress(BadAnswerError):
        read(body)


@pytest.mark.parametrize("item", ["{}", '""', "[]"])
def test_an_answer_of_too_many_values_is_a_bad_answer(item: str) -> None:
    items = ",".join([item] * 600_000)
    answer = '{"response":{"status":{"details":{"causes":[' + items + "]}}}}"
    with pytest.raises(BadAnswerError, match="response body holds more than 600000 values"):
        read(answer.encode())


@given(objects(), st.sampled_from(Phase))
def test_an_answer_without_the_right_uid_never_allows_anything(response: JSONObject, phase: Phase) -> None:
    response.pop("uid", None)
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    with pytest.raises(BadAnswerError):
        read(review, phase=phase)


PATCH = encoded(ADD)
OTHER_UID = f'{INVALID}expected response.uid="123", got "1234"'
ABSENT = f"{INVALID}webhook response was absent"
MUTATING, VALIDATING = "mutating", "validating"
VERIFIED: list[tuple[ReviewVersion, str, JSON, str]] = [
    ("v1", MUTATING, v1(), ""),
    ("v1", VALIDATING, v1(), ""),
    ("v1", MUTATING, v1(patch=PATCH, patchType="JSONPatch"), ""),
    ("v1", MUTATING, v1(patch=PATCH, patchType="Foo"), ""),
    ("v1", MUTATING, v1() | {"response": None}, ABSENT),
    ("v1", VALIDATING, v1() | {"response": None}, ABSENT),
    ("v1", MUTATING, v1(uid="1234"), OTHER_UID),
    ("v1", VALIDATING, v1(uid="1234"), OTHER_UID),
    ("v1", VALIDATING, v1() | {"apiVersion": "admission.k8s.io2/v1"}, GVK),
    ("v1", VALIDATING, v1() | {"apiVersion": "admission.k8s.io/v2"}, GVK),
    ("v1", VALIDATING, v1() | {"kind": "AdmissionReview2"}, GVK),
    ("v1", MUTATING, v1() | {"kind": ""}, GVK),
    ("v1", MUTATING, v1(patch=PATCH), f"{INVALID}webhook returned response.patch but not response.patchType"),
    ("v1", MUTATING, v1(patchType="JSONPatch"), f"{INVALID}webhook returned response.patchType but not"),
    (
        "v1",
        MUTATING,
        v1(patch=PATCH, patchType=""),
        f'{INVALID}webhook returned invalid response.patchType of ""',
    ),
    ("v1", VALIDATING, v1(patch=PATCH), f"{INVALID}validating webhook may not return response.patch"),
    ("v1", VALIDATING, v1(patch=PATCH, patchType="JSONPatch"), f"{INVALID}validating webhook may not return"),
    (
        "v1",
        VALIDATING,
        v1(patchType="JSONPatch"),
        f"{INVALID}validating webhook may not return response.patchType",
    ),
    ("v1beta1", MUTATING, {"response": {"allowed": True}}, ""),
    ("v1beta1", VALIDATING, {"response": {"allowed": True}}, ""),
    ("v1beta1", MUTATING, {}, ABSENT),
    ("v1beta1", VALIDATING, {}, ABSENT),
    ("v1beta1", MUTATING, {"response": {"allowed": True, "uid": "1234"}}, ""),
    ("v1beta1", VALIDATING, {"response": {"allowed": True, "uid": "1234"}}, ""),
    ("v1beta1", VALIDATING, {"apiVersion": "x/v1", "kind": "Y", "response": {"allowed": True}}, ""),
    ("v1beta1", MUTATING, {"response": {"allowed": True, "patch": PATCH}}, ""),
    ("v1beta1", MUTATING, {"response": {"allowed": True, "patchType": "JSONPatch"}}, ""),
    ("v1beta1", VALIDATING, {"response": {"allowed": True, "patch": PATCH, "patchType": "JSONPatch"}}, ""),
]
"""Every rule for answers, and what is not a rule: version sent, kind of webhook, answer, complaint."""


@pytest.mark.parametrize(("version", "kind", "review", "complaint"), VERIFIED)
def test_answers_are_validated_as_in_the_api_server(
    version: ReviewVersion, kind: str, review: JSON, complaint: str
) -> None:
    if complaint:
        assert invalidity(review, phase=PHASES[kind], version=version).startswith(complaint)
    else:
        answer = verify(review, phase=PHASES[kind], version=version)
        assert answer.allowed
        assert bool(answer.patch) is (kind == MUTATING and "patch" in review["response"])
