"""Admission objects are secrets: what a recording contains, and what it must not."""

from __future__ import annotations

import base64
import json
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.controllers import BOTH, Phase
from pratique.admission.results import OutcomeStatus
from pratique.apimachinery import statuses
from pratique.apimachinery.json_values import JSON, Document, JSONObject, encode, go_json
from pratique.cluster.store import ANY_NAMESPACE
from pratique_frontdoor.chain.decisions import Decision, Step
from pratique_frontdoor.http.codecs import decode_review
from pratique_frontdoor.recording.recorders import LineWriter, RecordedDecision
from pratique_frontdoor.recording.redaction import Redaction, SecretKind, secret_kind
from support.front_doors.reviews import review_document
from support.pods import container, pod

KEY = b"k" * 32
CANARY = "canary-7d1f"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\nabc\n-----END RSA PRIVATE KEY-----"
JWT = f"eyJhbGciOi.eyJ{CANARY}.sig"


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def redacted(value: JSON, key: bytes = KEY) -> JSON:
    return Redaction(key).value(value)


def secret(**fields: JSON) -> JSONObject:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, **fields}


def pod_with_env(*env: JSON, **fields: JSON) -> JSONObject:
    written: JSONObject = {"env": list(env), **fields}
    return pod(container(**written))


APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
PLACES: list[JSON] = [
    secret(data={"a": base64_of(CANARY)}),
    secret(data={"a": CANARY}),
    secret(data={"a": [{"b": CANARY}]}),
    secret(data=[CANARY]),
    secret(data=CANARY),
    secret(stringData={"a": CANARY}),
    {"kind": "List", "items": [secret(stringData={"a": CANARY})]},
    {"kind": "Template", "spec": {"deep": secret(data={"a": CANARY})}},
    pod_with_env({"name": "A", "value": CANARY}),
    pod_with_env({"name": "A", "value": [CANARY]}),
    {"spec": {"template": pod_with_env({"name": "A", "value": f"-----{CANARY}\n"})}},
    {"metadata": {"annotations": {APPLIED: f"not JSON {CANARY}"}}},
    {"metadata": {"annotations": {APPLIED: json.dumps(secret(stringData={"a": CANARY}))}}},
    {"metadata": {"annotations": {"a.b/original": json.dumps(secret(stringData={"a": CANARY}))}}},
    {"kind": "TokenRequest", "status": {"token": CANARY}},
    {"kind": "TokenReview", "spec": {"token": CANARY}},
    {"spec": {"clientSecret": CANARY, "other": {"api_key": CANARY}}},
    {"data": {"key.pem": PEM}},
    {"data": {"log": f"before {JWT} after"}},
    {"data": {"header": f"Authorization: Bearer {CANARY}"}},
    {"data": {"url": f"postgres://user:{CANARY}@db/x"}},
    pod_with_env(args=[f"--db-password={CANARY}", f"x?api_key={CANARY}&y=1"]),
    {"data": {"k": base64.b64encode(b"\xff\x00" + CANARY.encode() * 4).decode()}},
    {"data": {"k": base64_of(PEM)}},
    {"data": {"k": CANARY + "x" * 40_000}},
]


def holds_canary(value: JSON) -> bool:
    text = encode(value).decode()
    return CANARY in text or base64_of(CANARY)[:12] in text


@pytest.mark.parametrize("value", PLACES, ids=range(len(PLACES)))
def test_secrets_are_replaced_in_place(value: JSON) -> None:
    assert not holds_canary(redacted(value))


@pytest.mark.parametrize(
    "value",
    [
        pod_with_env(
            {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "password"}}}, image="nginx"
        ),
        pod_with_env(image="registry.example.com/a@sha256:" + "0123456789abcdef" * 4),
        secret(type="Opaque", immutable=True, data=None, stringData={"empty": ""}),
        {"data": {"ca.crt": "-----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----"}},
        {"spec": {"request": base64_of("-----BEGIN CERTIFICATE REQUEST-----\nMIIC\nAbC1\n-----END")}},
        {"metadata": {"annotations": {"note": '{"a": 1}'}, "uid": "0df28fbd-5f5f-11e8-bc74-36e6bb280816"}},
        {"spec": {"path": "/var/run/secrets/kubernetes.io/serviceaccount", "n": [1, 2.5, True, None]}},
    ],
)
def test_other_values_stay(value: JSON) -> None:
    assert redacted(value) == value


def test_equal_secrets_have_equal_replacements_and_different_ones_differ() -> None:
    found = redacted(secret(data={"a": base64_of("one"), "b": base64_of("two")}, stringData={"c": "one"}))
    assert base64.b64decode(found["data"]["a"]).decode() == found["stringData"]["c"]
    assert found["data"]["a"] != found["data"]["b"]


def test_replacements_of_two_recordings_cannot_be_compared() -> None:
    value = secret(stringData={"a": "one"})
    assert redacted(value) == redacted(value)
    assert redacted(value) != redacted(value, b"x" * 32)


def test_redaction_is_idempotent() -> None:
    for value in PLACES:
        once = redacted(value)
        assert redacted(once) == once


def test_a_value_nested_too_deep_is_replaced_as_a_whole() -> None:
    value: JSON = CANARY
    for _ in range(500):
        value = {"a": [value]}
    assert not holds_canary(redacted(value))


def recorded(review: JSONObject, limit: int = 1 << 20, **decision: JSON) -> bytes:
    received = decode_review(encode(review), ANY_NAMESPACE)
    made = msgspec.structs.replace(Decision(uid="u", allowed=True), **decision)
    entry = RecordedDecision(0.0, "/admit", BOTH, received, made)
    return LineWriter(KEY, limit).write(entry, "sha256:0")


def patched(path: str, value: JSON) -> dict[str, JSON]:
    operation = {"op": "add", "path": path, "value": value}
    return {"patch": (operation,), "steps": (spoken("", patch=(operation,)),)}


def spoken(reason: str, **fields: JSON) -> Step:
    return Step(
        controller="V", phase=Phase.VALIDATE, name="v", outcome=OutcomeStatus.DENIED, reason=reason, **fields
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/spec/containers/0/env/-", {"name": "A", "value": CANARY}),
        ("/spec/containers/0/env/0/value", CANARY),
        ("/spec/containers/0/env", [{"name": "A", "value": CANARY}]),
        ("/spec/containers/-", pod_with_env({"name": "A", "value": CANARY})["spec"]["containers"][0]),
        ("/metadata/annotations", {APPLIED: CANARY}),
        ("/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration", CANARY),
        ("/spec/token", CANARY),
    ],
)
def test_patches_are_redacted_by_their_paths(path: str, value: JSON) -> None:
    assert CANARY.encode() not in recorded(review_document(), **patched(path, value))


@pytest.mark.parametrize(
    "path", ["/data/new", "/data/0", f"/data/{'9' * 5000}", "/stringData/x", "/data", "/stringData"]
)
def test_patches_of_secrets_are_redacted(path: str) -> None:
    value = {"x": CANARY} if path.count("/") == 1 else CANARY
    review = review_document(object=secret(data={}), kind={"group": "", "version": "v1", "kind": "Secret"})
    assert CANARY.encode() not in recorded(review, **patched(path, value))


LETTERS = st.characters(codec="utf-8", exclude_categories=["Cs"])


@given(
    planted=st.text(LETTERS, min_size=1, max_size=12).map(lambda text: f"{CANARY}{text}"),
    place=st.sampled_from(["object", "oldObject", "options", "extra"]),
    how=st.sampled_from(["data", "stringData", "env", "token"]),
)
def test_secrets_of_the_object_are_redacted_in_messages(planted: str, place: str, how: str) -> None:
    made: JSON = {
        "data": secret(data={"a": base64_of(planted)}),
        "stringData": secret(stringData={"a": planted}),
        "env": pod_with_env({"name": "A", "value": planted}),
        "token": {"kind": "TokenRequest", "status": {"token": planted}},
    }[how]
    asked = {"userInfo": {"username": "u", "extra": {"k": [planted]}}} if place == "extra" else {place: made}
    quoted = f"bad value {statuses.go_quoted(planted)}, which is {planted!s}"
    cause = statuses.StatusCause(message=quoted, field=f"data[{planted}]")
    status = statuses.Status(
        message=quoted, code=403, reason="Forbidden", details=statuses.StatusDetails(causes=(cause,))
    )
    line = recorded(
        review_document(**asked),
        allowed=False,
        status=status,
        object_document=Document.from_data(asked.get("object", {})),
        warnings=(f"warning: {planted}",),
        audit_annotations={f"v/{planted}": planted, "patch": go_json([{"value": planted}])},
        patch=(),
        steps=(spoken(quoted, patch=({"op": "add", "path": "/x", "value": [planted]},)),),
    )
    assert CANARY.encode() not in line
    assert base64_of(CANARY)[:12].encode() not in line


def test_where_secrets_and_texts_are_too_many_texts_are_redacted_as_a_whole() -> None:
    """Each place is compared with a secret of each length that begins so: in these texts, for minutes."""
    secrets = {f"k{number}": CANARY + "x" * number for number in range(2_000)}
    warnings = tuple(f"{number}: {f'{CANARY[:-1]}, ' * 100}{CANARY}" for number in range(1_000))
    found = recorded(review_document(object=secret(stringData=secrets)), 10 << 20, warnings=warnings)
    assert not holds_canary(json.loads(found))
    last = json.loads(found)["decision"]["warnings"][-1]
    assert redacted({"stringData": last} | {"kind": "Secret"})["stringData"] == last  # nothing else is in it


def test_the_rest_of_a_message_is_kept() -> None:
    review = review_document(object=pod_with_env({"name": "A", "value": CANARY}))
    status = statuses.Status(message=f"env A: {CANARY} is bad", code=403)
    line = json.loads(recorded(review, allowed=False, status=status))
    value = line["review"]["request"]["object"]["spec"]["containers"][0]["env"][0]["value"]
    assert line["decision"]["status"]["message"] == f"env A: {value} is bad"


def test_short_secrets_are_not_replaced_in_messages() -> None:
    review = review_document(object=pod_with_env({"name": "A", "value": "is"}))
    line = json.loads(recorded(review, warnings=("this is fine",)))
    assert line["decision"]["warnings"] == ["this is fine"]


def test_a_review_above_the_size_limit_is_recorded_without_its_objects() -> None:
    review = review_document(object=pod_with_env({"name": "A", "value": CANARY}))
    status = statuses.Status(message=f"{CANARY} is bad", code=403, reason="Forbidden")
    found = recorded(review, 10, allowed=False, status=status, warnings=(CANARY,), **patched("/x", CANARY))
    line = json.loads(found)
    assert CANARY.encode() not in found
    assert line["omittedBytes"] > 10
    assert "object" not in line["review"]["request"]
    assert line["decision"]["status"] == {"code": 403, "reason": "Forbidden"}


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_review_without_secrets_is_recorded_unchanged(version: str) -> None:
    document = review_document(version)
    line = json.loads(recorded(document))
    kept = {name: value for name, value in document["request"].items() if value is not None}
    assert line["review"] == {**document, "request": kept}
    assert (line["path"], line["phase"], line["configuration"]) == ("/admit", "admit", "sha256:0")
    assert line["time"] == "1970-01-01T00:00:00Z"


def test_no_long_name_of_a_member_is_remembered() -> None:
    name = "-" * 1000 + "password"
    references = sys.getrefcount(name)
    assert secret_kind((name,), CANARY, in_secret=False) is SecretKind.TEXT
    assert sys.getrefcount(name) == references
