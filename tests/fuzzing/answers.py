"""Bytes to what a webhook answers: read, checked, turned into an outcome, and its patch applied."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from pratique.admission.controllers import Phase
from pratique.admission.results import Patched
from pratique.apimachinery.errors import BadAnswerError
from pratique.apimachinery.json_values import JSON, encode
from pratique.apimachinery.patches import PatchDecodeError, PatchError, apply_patch, decode_patch
from pratique.rpc.messages import outcome_to_message
from pratique_frontdoor.webhooks.answers import read_answer, to_outcome
from pratique_frontdoor.webhooks.reviews import build_review
from support.admissions import pod_review
from support.chains import POD

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


@contextlib.contextmanager
def opened(_folder: Path) -> Iterator[Callable[[bytes], bool]]:
    """There is nothing to make."""
    yield attempt


def attempt(data: bytes) -> bool:
    """Read an answer in both versions and both phases; and once more as nothing but a patch."""
    understood = [_is_answer(data, version, phase) for version in ("v1", "v1beta1") for phase in Phase]
    return _is_patch(data) or any(understood)


def _is_answer(data: bytes, version: str, phase: Phase) -> bool:
    review = pod_review(POD)
    sent = build_review(review, [version])
    try:
        answer = read_answer(data.replace(UID.encode(), sent.uid.encode()), sent, phase)
    except BadAnswerError:
        return False
    outcome = to_outcome("webhook.example.com", answer, review)
    if isinstance(outcome.decision, Patched):
        with contextlib.suppress(PatchError):
            encode(apply_patch(POD, outcome.decision.operations))
    outcome_to_message(outcome)
    return True


def _is_patch(data: bytes) -> bool:
    try:
        operations = decode_patch(data)
        before = json.dumps(POD)
        encode(apply_patch(POD, operations))
        assert json.dumps(POD) == before
    except (PatchDecodeError, PatchError):
        return False
    return True


def seeds() -> Iterator[bytes]:
    """Answers of every kind, and patches of every operation."""
    operations: list[JSON] = [
        {"op": "add", "path": "/metadata/labels/a~1b~0", "value": "c"},
        {"op": "add", "path": "/spec/containers/-", "value": {"name": "b"}},
        {"op": "add", "path": "/spec/containers/0", "value": {"name": "b"}},
        {"op": "replace", "path": "/spec/containers/-1/image", "value": 1.5},
        {"op": "remove", "path": "/metadata/labels"},
        {"op": "copy", "from": "/spec", "path": "/spec/containers/0/x"},
        {"op": "move", "from": "/metadata/name", "path": "/spec/name"},
        {"op": "test", "path": "/kind", "value": "Pod"},
        {"op": "replace", "path": "", "value": {}},
    ]
    for operation in operations:
        yield json.dumps([operation]).encode()
    patch = base64.b64encode(json.dumps(operations[:2]).encode()).decode()
    status = {"metadata": {"selfLink": "a"}, "code": 409, "reason": "Conflict", "message": "no"}
    causes = [{"reason": "a", "message": "b", "field": "c"}, None]
    details = {"name": "a", "causes": causes, "retryAfterSeconds": 5}
    responses: list[JSON] = [
        {"allowed": True},
        {"allowed": True, "patch": patch, "patchType": "JSONPatch", "warnings": ["a"]},
        {"allowed": True, "patch": [91, 93], "patchType": "JSONPatch"},
        {"allowed": False, "status": {**status, "details": details}, "auditAnnotations": {"a": "b"}},
    ]
    for version in ("v1", "v1beta1"):
        head = {"apiVersion": f"admission.k8s.io/{version}", "kind": "AdmissionReview"}
        for response in responses:
            yield json.dumps({**head, "response": {"uid": UID, **response}}).encode()
    yield b'{"apiVersion":"v1","kind":"Status","status":"Failure"}'
