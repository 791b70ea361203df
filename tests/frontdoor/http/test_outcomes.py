"""Which failure answers what: every way in which a review can end, on both endpoints of a webhook."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from doors.engines import AllowingEngine, DenyingEngine, FailingEngine, HangingEngine, PatchingEngine
from doors.remote import remote_door
from doors.reviews import review_body, review_body_of
from doors.running import JSON_TYPE, open_door
from frontdoor.engines import open_local
from frontdoor.settings import FrontDoorSettings
from pratique.admission.v1.outcome_pb2 import Outcome, Patched
from pratique.cluster_files import load_cluster
from pratique.settings import ChainSettings
from serving import controllers
from serving.faulty_services import CONTROLLER, black_hole, full, hosting, refused, saying
from serving.servers import MUTATOR, VALIDATOR, Kind
from webhook_servers import authority, denied, respond, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from frontdoor.engines import Engine
    from pratique.json_values import JSON
    from serving.faulty_services import Address
    from webhook_servers import Behaviour, WebhookServer

REVIEW = review_body()
ALLOWED, DENIED, NO_DECISION = True, False, None

ROWS: dict[str, tuple[Engine, dict[str, Any], Mapping[str, str], bytes, int, bool | None]] = {
    "allowed": (AllowingEngine(), {}, JSON_TYPE, REVIEW, 200, ALLOWED),
    "changed": (PatchingEngine(), {}, JSON_TYPE, REVIEW, 200, ALLOWED),
    "denied": (DenyingEngine(), {}, JSON_TYPE, REVIEW, 200, DENIED),
    "not JSON": (AllowingEngine(), {}, JSON_TYPE, b"{", 400, NO_DECISION),
    "no review": (AllowingEngine(), {}, JSON_TYPE, b"{}", 400, NO_DECISION),
    "hostile JSON": (
        AllowingEngine(),
        {},
        JSON_TYPE,
        REVIEW.replace(b'"uid"', b'"uid":"","uid"'),
        400,
        NO_DECISION,
    ),
    "not in JSON": (AllowingEngine(), {}, {"Content-Type": "text/plain"}, REVIEW, 415, NO_DECISION),
    "compressed": (AllowingEngine(), {}, JSON_TYPE | {"Content-Encoding": "gzip"}, REVIEW, 415, NO_DECISION),
    "too large": (
        AllowingEngine(),
        {"max_body_bytes": 1000},
        JSON_TYPE,
        review_body_of(1001),
        413,
        NO_DECISION,
    ),
    "too late": (HangingEngine(), {"default_timeout_seconds": 0.1}, JSON_TYPE, REVIEW, 504, NO_DECISION),
    "too many": (AllowingEngine(), {"max_in_flight_bytes": 1}, JSON_TYPE, REVIEW, 503, NO_DECISION),
    "a fault": (FailingEngine(), {}, JSON_TYPE, REVIEW, 500, NO_DECISION),
}
"""The engine, the settings, headers and body sent; HTTP code and decision answered."""


@pytest.mark.parametrize("path", ["/validate", "/mutate"])
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_each_outcome_has_its_code(path: str, row: Any) -> None:
    engine, settings, headers, body, code, allowed = row
    with open_door(engine, FrontDoorSettings(**settings)) as door:
        answer = door.request("POST", path, body, headers)
    assert answer.code == code
    assert "Retry-After" not in answer.headers
    if allowed is NO_DECISION:
        assert (answer.json["kind"], answer.json["status"], answer.json["code"]) == (
            "Status",
            "Failure",
            code,
        )
        assert "retryAfterSeconds" not in answer.text
    else:
        assert answer.json["response"]["allowed"] is allowed
        assert answer.json["response"]["uid"] == json.loads(REVIEW)["request"]["uid"]


def patched(kind: Kind, patch: bytes) -> Address:
    """A service that answers well, with that patch."""
    return saying(kind, Outcome(controller=CONTROLLER, patched=Patched(patch=patch)))


CALL_FAILED = 'failed calling admission controller "AlwaysPullImages": rpc error: code = '
UNREACHABLE = f"{CALL_FAILED}Unavailable"
NOWHERE = b'[{"op":"remove","path":"/nowhere"}]'
UNFIT = {
    MUTATOR: "error in remove for path: '/nowhere': Unable to remove nonexistent key: nowhere",
    VALIDATOR: 'failed calling admission controller "AlwaysPullImages": received invalid webhook response',
}

SERVICE_ROWS: dict[str, tuple[Callable[[Kind], Address], int, Mapping[Kind, str]]] = {
    "it is down": (lambda _: refused(), 200, dict.fromkeys(UNFIT, UNREACHABLE)),
    # Unavailable by its own count; ResourceExhausted by gRPC's, where streams and watches have taken that up already.
    "it is full": (full, 200, dict.fromkeys(UNFIT, CALL_FAILED)),
    "its patch does not apply, or is not its to make": (lambda kind: patched(kind, NOWHERE), 200, UNFIT),
    "its policy raises": (
        lambda kind: hosting(kind, controllers.raising(ValueError())),
        200,
        dict.fromkeys(UNFIT, 'admission controller "AlwaysPullImages" failed: raised ValueError'),
    ),
    "nobody accepts the connection": (lambda _: black_hole(), 504, dict.fromkeys(UNFIT, "did not complete")),
}
"""What is the matter with the service; the HTTP code, and what is said. A controller that failed is a decision, as it
is in kube-apiserver (docs/adr/0004-which-failure-answers-what.md)."""


@pytest.mark.parametrize(("path", "kind"), [("/validate", VALIDATOR), ("/mutate", MUTATOR)])
@pytest.mark.parametrize(("fault", "code", "told"), SERVICE_ROWS.values(), ids=SERVICE_ROWS)
def test_each_fault_of_a_service_has_its_code(
    path: str, kind: Kind, fault: Callable[[Kind], Address], code: int, told: Mapping[Kind, str]
) -> None:
    seconds = 1 if code == 504 else 10

    async def ask() -> tuple[int, Any]:
        async with fault(kind) as address:
            chain = ChainSettings(admission_control=(CONTROLLER,))
            settings = FrontDoorSettings(mutator=address, validators=(address,), chain=chain)
            async with remote_door(settings) as door:
                return await door.post(f"{path}?timeout={seconds}s")

    answered, body = asyncio.run(ask())
    status = body["response"]["status"] if code == 200 else body
    assert (answered, status["code"], status["status"]) == (code, 500 if code == 200 else code, "Failure")
    assert told[kind] in status["message"]
    if code == 200:
        assert (body["response"]["allowed"], body["response"]["uid"]) == (
            False,
            json.loads(REVIEW)["request"]["uid"],
        )


@pytest.mark.parametrize("path", ["/validate", "/mutate"])
def test_a_patch_leaves_by_the_mutating_endpoint_alone(path: str) -> None:
    with open_door(PatchingEngine()) as door:
        response = door.post(path).json["response"]
    assert ("patch" in response, "patchType" in response) == (path == "/mutate",) * 2


def webhook_configuration(kind: str, server: WebhookServer) -> JSON:
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    webhook = {
        "name": "asked.example.com",
        "clientConfig": {"url": server.url, "caBundle": base64.b64encode(authority().pem).decode()},
        "rules": [everything],
        "sideEffects": "None",
        "timeoutSeconds": 1,
        "admissionReviewVersions": ["v1"],
    }
    configuration = {
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": "tests"},
        "webhooks": [webhook],
    }
    return {"apiVersion": "admissionregistration.k8s.io/v1", **configuration}


BUSY = respond(429, headers={"Retry-After": "0"})
BUSY_FOR_LONG = respond(503, headers={"Retry-After": "86400"})
RETRY_LATER = denied(status={"code": 429, "message": "later", "details": {"retryAfterSeconds": 7}})


@pytest.mark.parametrize(("path", "kind"), [("/validate", "Validating"), ("/mutate", "Mutating")])
@pytest.mark.parametrize(
    "behaviour", [BUSY, BUSY_FOR_LONG, RETRY_LATER], ids=["busy", "busy for long", "denied"]
)
def test_who_is_told_to_come_back_later_does_not_tell_so(
    tmp_path: Path, path: str, kind: str, behaviour: Behaviour
) -> None:
    file = tmp_path / "webhooks.json"
    with serve(behaviour) as server:
        file.write_text(json.dumps(webhook_configuration(kind, server)))
        with open_door(open_local(ChainSettings(config=(file,)), load_cluster(None))) as door:
            answer = door.post(path)
    assert server.received
    assert (answer.code, answer.json["response"]["allowed"]) == (200, False)
    assert "Retry-After" not in answer.headers
