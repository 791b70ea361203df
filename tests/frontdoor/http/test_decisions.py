from __future__ import annotations

import base64
import json

import pytest

from pratique.admission.controllers import BOTH, MUTATE, VALIDATE, Phase
from support.front_doors.engines import AllowingEngine, DenyingEngine, PatchingEngine
from support.front_doors.reviews import POD, review_body, review_document
from support.front_doors.running import Door, open_door

UID = "0df28fbd-5f5f-11e8-bc74-36e6bb280816"


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize("path", ["/mutate", "/validate", "/admit"])
def test_a_review_is_answered_in_its_own_version(allowing: Door, path: str, version: str) -> None:
    answer = allowing.post(path, review_body(version))
    assert answer.code == 200
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json == {
        "apiVersion": f"admission.k8s.io/{version}",
        "kind": "AdmissionReview",
        "response": {"uid": UID, "allowed": True},
    }


@pytest.mark.parametrize("path", ["/mutate", "/validate", "/admit"])
def test_a_denied_review_is_answered_with_http_200(path: str) -> None:
    with open_door(DenyingEngine()) as door:
        answer = door.post(path)
    assert answer.code == 200
    response = answer.json["response"]
    assert response["allowed"] is False
    assert response["status"]["code"] == 403
    assert response["status"]["message"] == 'pods "one" is forbidden: no'


def test_the_answer_has_patch_warnings_and_annotations() -> None:
    with open_door(PatchingEngine()) as door:
        response = door.post("/mutate").json["response"]
    patch = json.loads(base64.b64decode(response.pop("patch")))
    assert patch == [{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]
    assert response == {
        "uid": UID,
        "allowed": True,
        "patchType": "JSONPatch",
        "warnings": ["labelled"],
        "auditAnnotations": {"labels.example.com_seen": "yes"},
    }


@pytest.mark.parametrize(
    ("path", "phases", "explain"),
    [
        ("/mutate", MUTATE, False),
        ("/validate", VALIDATE, False),
        ("/admit", BOTH, False),
        ("/mutate?phase=validate", MUTATE, False),
        ("/explain", BOTH, True),
        ("/explain?phase=admit", BOTH, True),
        ("/explain?phase=mutate", MUTATE, True),
        ("/explain?phase=validate&timeout=3s", VALIDATE, True),
    ],
)
def test_each_path_runs_its_phases(path: str, phases: frozenset[Phase], explain: bool) -> None:  # noqa: FBT001 - a table's column
    engine = AllowingEngine()
    with open_door(engine) as door:
        assert door.post(path).code == 200
    assert [asked[1::2] for asked in engine.asked] == [(phases, explain)]


def test_the_engine_gets_the_review_and_its_cluster() -> None:
    engine = AllowingEngine()
    with open_door(engine) as door:
        door.post("/validate", review_body(dryRun=True, subResource="status"))
    review = engine.asked[0][0]
    assert (review.uid, review.operation, review.subresource) == (UID, "CREATE", "status")
    assert (review.user.username, review.dry_run, review.object) == ("admin", True, POD)
    assert review.cluster is engine.cluster


def test_an_explanation_is_the_decision_document(allowing: Door) -> None:
    answer = allowing.post("/explain?phase=validate")
    assert answer.code == 200
    assert answer.json == {
        "uid": UID,
        "allowed": True,
        "status": None,
        "object": POD,
        "patch": [],
        "warnings": [],
        "auditAnnotations": {},
        "steps": [
            {
                "controller": "NamespaceLifecycle",
                "phase": "validate",
                "name": "NamespaceLifecycle",
                "configuration": "",
                "round": 0,
                "outcome": "allowed",
                "reason": "",
                "patch": [],
                "durationMs": 1.0,
                "endpoint": "",
            }
        ],
        "expanded": [],
    }


def test_an_explained_denial_has_http_200() -> None:
    with open_door(DenyingEngine()) as door:
        answer = door.post("/explain")
    assert answer.code == 200
    assert answer.json["allowed"] is False
    assert answer.json["status"]["reason"] == "Forbidden"
    assert answer.json["steps"][0]["outcome"] == "denied"


@pytest.mark.parametrize(
    "field",
    [
        "requestKind",
        "requestResource",
        "name",
        "namespace",
        "userInfo",
        "object",
        "oldObject",
        "options",
        "dryRun",
    ],
)
def test_optional_fields_of_a_request_may_be_missing(allowing: Door, field: str) -> None:
    document = review_document()
    document["request"].pop(field, None)
    assert allowing.post("/admit", json.dumps(document).encode()).code == 200


def test_fields_of_later_versions_are_tolerated(allowing: Door) -> None:
    assert allowing.post("/admit", review_body(fromTheFuture={"a": [1, None]})).code == 200
