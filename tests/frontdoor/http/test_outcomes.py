"""The HTTP answer to every result of a review, on both endpoints for webhooks."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import pytest

from pratique.admission.v1.outcome_pb2 import Allowed, Outcome, Patched
from pratique.apimachinery.json_values import JSON
from pratique.cluster.files import load_cluster
from pratique.configuration.settings import ChainSettings
from pratique.rpc import handlers
from pratique_frontdoor.engines.engine import Engine, open_local
from pratique_frontdoor.http import endpoints
from pratique_frontdoor.settings import CallKind, FrontDoorSettings
from support.front_doors.engines import (
    AllowingEngine,
    DenyingEngine,
    FailingEngine,
    HangingEngine,
    PatchingEngine,
)
from support.front_doors.remote import RemoteDoor, remote_door
from support.front_doors.reviews import review_body, review_body_of
from support.front_doors.running import JSON_TYPE, open_door
from support.services import controllers
from support.services.faulty_services import (
    CONTROLLER,
    Address,
    aborting,
    answering,
    black_hole,
    full,
    hosting,
    refused,
    saying,
    speaking,
)
from support.services.servers import MUTATOR, VALIDATOR, Kind
from support.webhook_servers import Behaviour, WebhookServer, allowed, authority, denied, respond, serve

Door: TypeAlias = "AbstractAsyncContextManager[RemoteDoor]"

REVIEW = review_body()
UID = json.loads(REVIEW)["request"]["uid"]
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
def test_each_outcome_has_its_http_code(path: str, row: Any) -> None:
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


async def never_answering(_request: bytes, _context: Any) -> bytes:
    await asyncio.Event().wait()
    return b""


NOWHERE = b'[{"op":"remove","path":"/nowhere"}]'
OUT = {MUTATOR: "the mutator ", VALIDATOR: "the validators "}


def out(words: str) -> Mapping[Kind, str]:
    """The message for an outage of each service."""
    return {kind: f"{service}{words}" for kind, service in OUT.items()}


def at_fault(words: str) -> Mapping[Kind, str]:
    """The message for a controller that failed in a working service."""
    return dict.fromkeys(OUT, words)


UNANSWERED = out("did not answer in time")
REFUSED = out("cannot be asked: rpc error: code = ")

SERVICE_ROWS: dict[str, tuple[Callable[[Kind], Address], int, Mapping[Kind, str]]] = {
    "it is down": (lambda _: refused(), 503, out("cannot be asked: rpc error: code = Unavailable")),
    # Unavailable by its own count; ResourceExhausted by gRPC's, where streams and watches have taken that up already.
    "it is full": (full, 503, REFUSED),
    "it refuses the call": (lambda _: speaking(aborting(grpc.StatusCode.UNAUTHENTICATED)), 503, REFUSED),
    "it speaks nonsense": (lambda _: speaking(answering(b"\xff" * 64)), 503, REFUSED),
    "it answers for another controller": (
        lambda kind: saying(kind, Outcome(controller="Other", allowed=Allowed())),
        503,
        out("cannot be asked: received invalid webhook response"),
    ),
    "it does not host the controller": (
        lambda kind: hosting(kind, None),
        503,
        out('cannot be asked: not configured with the admission controller "AlwaysPullImages"'),
    ),
    "nobody accepts the connection": (lambda _: black_hole(), 504, UNANSWERED),
    "nobody answers on it": (lambda _: speaking(never_answering), 504, UNANSWERED),
    "its own deadline passes": (
        lambda _: speaking(aborting(grpc.StatusCode.DEADLINE_EXCEEDED)),
        504,
        UNANSWERED,
    ),
    "its policy raises": (
        lambda kind: hosting(kind, controllers.raising(ValueError())),
        200,
        at_fault('admission controller "AlwaysPullImages" failed: raised ValueError'),
    ),
    "its policy hangs": (
        lambda kind: hosting(kind, controllers.hanging),
        200,
        at_fault('admission controller "AlwaysPullImages" failed: context deadline exceeded'),
    ),
}
"""What is the matter with the service; the HTTP code, and what is said. A service that is out is the caller's to
decide about (docs/adr/0021-an-outage-is-the-callers-to-decide.md); a controller that failed in one that works is a
decision, as it is in kube-apiserver."""


BY_PATH = {
    "/validate": VALIDATOR,
    "/mutate": MUTATOR,
    "/admit": MUTATOR,
    "/explain?phase=validate": VALIDATOR,
}
"""The service that is called first."""


def fronting(address: str, *names: str, config: tuple[Path, ...] = (), **more: Any) -> Door:
    """A front door whose services are all at one address."""
    chain = ChainSettings(admission_control=names or (CONTROLLER,), config=config)
    return remote_door(FrontDoorSettings(mutator=address, validators=(address,), chain=chain, **more))


@pytest.fixture
def wide_margins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reserve a tenth of each timeout for the answer, for a busy machine: 50 ms are over before it has told it."""
    for module, name in ((endpoints, "_MOST_MARGIN_SECONDS"), (handlers, "_MAX_MARGIN_SECONDS")):
        monkeypatch.setattr(module, name, 10)


async def asked_beside(
    webhook: WebhookServer, service: Address, folder: Path, seconds: int
) -> tuple[int, Any]:
    """Have a review validated by a webhook and by a service, side by side."""
    file = folder / "config.json"
    file.write_text(json.dumps(webhook_configuration("Validating", webhook, 30)))
    names = (CONTROLLER, "ValidatingAdmissionWebhook")
    async with service as address, fronting(address, *names, config=(file,)) as door:
        return await door.post(f"/validate?timeout={seconds}s")


async def asked(path: str, address: str, seconds: float, **more: Any) -> tuple[int, Any]:
    async with fronting(address, **more) as door:
        return await door.post(f"{path}{'&' if '?' in path else '?'}timeout={seconds}s")


@pytest.mark.usefixtures("wide_margins")
@pytest.mark.parametrize(("fault", "code", "told"), SERVICE_ROWS.values(), ids=SERVICE_ROWS)
def test_each_failure_of_a_service_has_its_http_code(
    fault: Callable[[Kind], Address], code: int, told: Mapping[Kind, str]
) -> None:
    hangs = code == 504 or "deadline" in told[MUTATOR]

    async def ask(path: str, kind: Kind) -> tuple[int, Any]:
        async with fault(kind) as address:
            return await asked(path, address, 3 if hangs else 20)

    async def ask_all() -> list[tuple[int, Any]]:
        return await asyncio.gather(*(ask(path, kind) for path, kind in BY_PATH.items()))

    for (path, kind), (answered, body) in zip(BY_PATH.items(), asyncio.run(ask_all()), strict=True):
        decision = body.get("response", body)
        status = decision["status"] if code == 200 else body
        failure = (code, 500 if code == 200 else code, "Failure")
        assert (answered, status["code"], status["status"]) == failure, path
        assert told[kind] in status["message"], path
        assert code != 200 or (decision["allowed"], decision["uid"]) == (False, UID), path
        assert code == 200 or (body["kind"], body["apiVersion"], "response" in body) == (
            "Status",
            "v1",
            False,
        ), path


@pytest.mark.parametrize(
    ("kind", "code", "told"),
    [
        (MUTATOR, 200, "error in remove for path: '/nowhere': Unable to remove nonexistent key: nowhere"),
        (VALIDATOR, 503, "the validators cannot be asked: received invalid webhook response"),
    ],
    ids=str,
)
def test_a_patch_that_does_not_apply_denies_and_a_patch_from_a_validator_is_an_outage(
    kind: Kind, code: int, told: str
) -> None:
    async def ask() -> tuple[int, Any]:
        async with patched(kind, NOWHERE) as address:
            return await asked("/mutate" if kind is MUTATOR else "/validate", address, 10)

    answered, body = asyncio.run(ask())
    assert answered == code
    assert told in body.get("response", {"status": body})["status"]["message"]


@pytest.mark.parametrize("calls", CallKind)
@pytest.mark.parametrize("fault", [black_hole, lambda: speaking(never_answering)], ids=["deaf", "mute"])
def test_a_hanging_service_has_the_same_answer_whichever_timeout_fires_first(
    fault: Callable[[], Address], calls: CallKind
) -> None:
    async def ask() -> list[tuple[int, Any]]:
        async with fault() as address:
            seconds = (0.02, 0.1, 0.3, 0.3)
            return [await asked("/validate", address, second, calls=calls) for second in seconds]

    answers = asyncio.run(ask())
    assert [code for code, _ in answers] == [504] * 4
    assert {body["message"] for _, body in answers} == {"Timeout: the validators did not answer in time"}


@pytest.mark.usefixtures("wide_margins")
@pytest.mark.parametrize("fault", [refused, black_hole], ids=["down", "hung"])
def test_a_denial_stands_during_an_outage_of_the_validators(
    fault: Callable[[], Address], tmp_path: Path
) -> None:
    with serve(denied(status={"code": 403, "message": "not today"})) as server:
        code, body = asyncio.run(asked_beside(server, fault(), tmp_path, seconds=4))
    response = body["response"]
    assert (code, response["allowed"], response["status"]["code"]) == (200, False, 403)
    assert "not today" in response["status"]["message"]


@pytest.mark.parametrize("fault", [refused, black_hole], ids=["down", "hung"])
def test_a_review_allowed_by_webhooks_is_an_outage_while_the_validators_are_down(
    fault: Callable[[], Address], tmp_path: Path
) -> None:
    with serve(allowed()) as server:
        code, _ = asyncio.run(asked_beside(server, fault(), tmp_path, seconds=1))
    assert code == (503 if fault is refused else 504)


def test_outages_are_counted_by_service_and_cause() -> None:
    async def ask() -> str:
        async with refused() as address, fronting(address) as door:
            await door.post("/mutate")
            await door.post("/explain?phase=validate")
            async with door.session.get(f"{door.url}/metrics") as answer:
                return await answer.text()

    text = asyncio.run(ask())
    for service in ("mutator", "validator"):
        assert f'pratique_frontdoor_outages_total{{cause="unreachable",service="{service}"}} 1.0' in text
    assert "apiserver_admission_controller_admission_duration_seconds_count" not in text


@pytest.mark.parametrize("path", ["/validate", "/mutate"])
def test_only_mutating_endpoints_return_a_patch(path: str) -> None:
    with open_door(PatchingEngine()) as door:
        response = door.post(path).json["response"]
    assert ("patch" in response, "patchType" in response) == (path == "/mutate",) * 2


def webhook_configuration(kind: str, server: WebhookServer, seconds: int = 1) -> JSON:
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    webhook = {
        "name": "asked.example.com",
        "clientConfig": {"url": server.url, "caBundle": base64.b64encode(authority().pem).decode()},
        "rules": [everything],
        "sideEffects": "None",
        "timeoutSeconds": seconds,
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
def test_retry_after_of_a_webhook_is_not_passed_on(
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
