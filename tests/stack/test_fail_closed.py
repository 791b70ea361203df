"""No failure behind or in the front door is ever answered with ``allowed: true``."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from pratique.admission.v1 import outcome_pb2
from pratique.configuration.loading import load_configurations
from pratique.configuration.settings import ChainSettings
from pratique_frontdoor.settings import FrontDoorSettings
from support.front_doors.remote import RemoteDoor, remote_door
from support.services import controllers
from support.services.faulty_services import (
    CONTROLLER,
    Address,
    aborting,
    answering,
    black_hole,
    cut,
    draining,
    full,
    go_away,
    hosting,
    listening,
    refused,
    say_nothing,
    saying,
    speaking,
    swapping,
    talk_nonsense,
    unhealthy,
)
from support.services.servers import MUTATOR, VALIDATOR, Kind

PULLED = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "one", "namespace": "default"},
    "spec": {"containers": [{"name": "main", "image": "nginx", "imagePullPolicy": "Always"}]},
}
ENDPOINTS = [("/mutate", MUTATOR), ("/validate", VALIDATOR), ("/admit", VALIDATOR)]
both_endpoints = pytest.mark.parametrize(("path", "kind"), ENDPOINTS[:2], ids=["mutate", "validate"])


def outcome(name: str = CONTROLLER, **fields: Any) -> outcome_pb2.Outcome:
    return outcome_pb2.Outcome(controller=name, **fields)


ALLOWED = outcome(allowed=outcome_pb2.Allowed())
UNFIT = outcome_pb2.Patched(patch=b'[{"op": "remove", "path": "/nowhere"}]')
NO_PATCH = outcome_pb2.Patched(patch=b"allowed")


async def returning_late(_review: Any) -> Any:
    return None


async def raising_in_a_coroutine(_review: Any) -> Any:
    raise ValueError


FAULTS: dict[str, Callable[[Kind], Address]] = {
    "the connection is refused": lambda _: refused(),
    "nobody accepts the connection": lambda _: black_hole(),
    "nobody answers on it": lambda _: listening(say_nothing),
    "it speaks HTTP/1.1": lambda _: listening(talk_nonsense),
    "it says GOAWAY": lambda _: listening(go_away),
    "it is reset before the answer": lambda kind: cut(kind, 0, 0, reset=True),
    "it is reset in the middle of the answer": lambda kind: cut(kind, 1, 0.5, reset=True),
    "the answer ends in its middle": lambda kind: cut(kind, 1, 0.5, reset=False),
    "the answer lacks its status": lambda kind: cut(kind, 2, 0, reset=False),
    "UNAVAILABLE": lambda _: speaking(aborting(grpc.StatusCode.UNAVAILABLE)),
    "UNKNOWN": lambda _: speaking(aborting(grpc.StatusCode.UNKNOWN)),
    "CANCELLED": lambda _: speaking(aborting(grpc.StatusCode.CANCELLED)),
    "UNAUTHENTICATED": lambda _: speaking(aborting(grpc.StatusCode.UNAUTHENTICATED)),
    "UNIMPLEMENTED": lambda kind: hosting(VALIDATOR if kind is MUTATOR else MUTATOR, controllers.allowing),
    "an empty message": lambda _: speaking(answering(b"")),
    "garbage": lambda _: speaking(answering(b"\xff" * 64)),
    "JSON": lambda _: speaking(answering(b'{"response": {"allowed": true}}')),
    "no decision": lambda kind: saying(kind, outcome()),
    "the outcome of another controller": lambda kind: saying(
        kind, outcome("Other", allowed=outcome_pb2.Allowed())
    ),
    "an outcome without a name": lambda kind: saying(kind, outcome("", allowed=outcome_pb2.Allowed())),
    "one outcome more": lambda kind: saying(kind, ALLOWED, ALLOWED),
    "an answer to another review": lambda kind: saying(kind, ALLOWED, uid="another"),
    "an answer to no review": lambda kind: saying(kind, ALLOWED, uid=""),
    "an answer by other inputs": lambda kind: saying(kind, ALLOWED, digest="0" * 32),
    "an answer by nobody knows what": lambda kind: saying(kind, ALLOWED, digest=""),
    "it is older than digests": lambda kind: saying(kind, ALLOWED, uid="", digest="", tells=False),
    "a failure": lambda kind: saying(kind, outcome(failed=outcome_pb2.Failed())),
    "a denial with code 200": lambda kind: saying(
        kind, outcome(denied=outcome_pb2.Denied(status=outcome_pb2.Status(code=200)))
    ),
    "a denial without a status": lambda kind: saying(kind, outcome(denied=outcome_pb2.Denied())),
    "a patch that does not fit, or is not its to make": lambda kind: saying(kind, outcome(patched=UNFIT)),
    "a patch that is none": lambda kind: saying(kind, outcome(patched=NO_PATCH)),
    "NOT_SERVING": lambda _: unhealthy(),
    "it drains": draining,
    "it hosts nothing": lambda kind: hosting(kind, None),
    "it has no room for the call": full,
    "the policy raises": lambda kind: hosting(kind, controllers.raising(ValueError())),
    "the policy raises BaseException": lambda kind: hosting(kind, controllers.raising(BaseException())),
    "the policy exits": lambda kind: hosting(kind, controllers.raising(SystemExit(0))),
    "the policy returns None": lambda kind: hosting(kind, lambda _: None),  # type: ignore[arg-type,return-value]  # so
    "the policy returns True": lambda kind: hosting(kind, lambda _: True),  # type: ignore[arg-type,return-value]  # so
    "the policy returns a coroutine of nothing": lambda kind: hosting(kind, returning_late),
    "the policy's coroutine raises": lambda kind: hosting(kind, raising_in_a_coroutine),
    "the policy hangs": lambda kind: hosting(kind, controllers.hanging),
}

DECIDED = [FAULTS[name] for name in FAULTS if name.startswith(("the policy", "a denial", "a failure"))]
"""A failed controller of a working service is a decision; a failed service is not."""
HANGING = FAULTS["the policy hangs"]
UNFIT_PATCH = FAULTS["a patch that does not fit, or is not its to make"]


def settings(
    mutator: str, validator: str, *names: str, config: tuple[Path, ...] = (), **more: Any
) -> FrontDoorSettings:
    chain = ChainSettings(admission_control=names or (CONTROLLER,), config=config)
    return FrontDoorSettings(mutator=mutator, validators=(validator,), chain=chain, **more)


@both_endpoints
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_no_failure_is_ever_allowed(fault: Callable[[Kind], Address], path: str, kind: Kind) -> None:
    async def run() -> tuple[int, Any]:
        async with fault(kind) as address, remote_door(settings(address, address)) as door:
            return await door.post(f"{path}?timeout={seconds}s", object=PULLED)

    decided = fault in DECIDED or (fault is UNFIT_PATCH and kind is MUTATOR)
    seconds = 20 if decided and fault is not HANGING else 1
    code, body = asyncio.run(run())
    if fault is HANGING:
        assert code in (200, 504)  # a busy machine may have no time left to tell that the time is up
    else:
        assert code == 200 if decided else code in (503, 504)
    assert code != 200 or body["response"]["allowed"] is False
    assert code == 200 or (body["kind"], body["status"], "response" in body) == ("Status", "Failure", False)


@pytest.mark.parametrize(("path", "kind"), ENDPOINTS[:2])
def test_a_working_stack_allows(path: str, kind: Kind) -> None:
    async def run() -> bool:
        async with hosting(kind, controllers.allowing) as at, remote_door(settings(at, at)) as door:
            return await door.allows(path, object=PULLED)

    assert asyncio.run(run())


@both_endpoints
def test_a_correct_answer_is_allowed(path: str, kind: Kind) -> None:
    """Shows that the denials above are due to the failure."""

    async def run() -> bool:
        async with saying(kind, ALLOWED) as at, remote_door(settings(at, at)) as door:
            return await door.allows(path, object=PULLED)

    assert asyncio.run(run())


def test_swapped_answers_on_a_stream_are_refused() -> None:
    async def run() -> list[bool]:
        async with swapping() as at, remote_door(settings(at, at)) as door:
            await asked_by_streams(door)
            asking = [door.allows("/validate?timeout=2s", uid=f"{n}", object=PULLED) for n in range(10)]
            return await asyncio.gather(*asking)

    assert not any(asyncio.run(run()))


async def asked_by_streams(door: RemoteDoor) -> None:
    """Wait until the front door has a stream to each validator."""
    async with asyncio.timeout(120):
        shown = ""
        while 'replica_agrees{endpoint="grpc://' not in shown or "validator" not in shown:
            async with door.session.get(f"{door.url}/metrics") as answer:
                shown = await answer.text()


@both_endpoints
def test_an_answer_without_one_of_the_controllers_is_not_allowed(path: str, kind: Kind) -> None:
    async def run() -> bool:
        async with (
            saying(kind, ALLOWED) as address,
            remote_door(settings(address, address, CONTROLLER, "LimitRanger")) as door,
        ):
            return await door.allows(f"{path}?timeout=1s", object=PULLED)

    assert not asyncio.run(run())


WEBHOOK = """
apiVersion: admissionregistration.k8s.io/v1
kind: {phase}WebhookConfiguration
metadata: {{name: tests}}
webhooks:
- name: pods.tests.example.com
  clientConfig: {{url: "grpc://{address}"}}
  rules: [{{operations: ["*"], apiGroups: [""], apiVersions: ["*"], resources: [pods]}}]
  admissionReviewVersions: [v1]
  sideEffects: None
"""


GOOD = WEBHOOK.format(phase="Validating", address="127.0.0.1:1")
POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: tests}}
spec:
  matchConstraints:
    resourceRules: [{{operations: ["*"], apiGroups: [""], apiVersions: ["*"], resources: [pods]}}]
  validations: [{{expression: "{expression}"}}]
"""
DOORS = 8
BAD_CONFIGURATIONS: dict[str, bytes] = {
    "no kind": b"webhooks: {}",
    "no version": b"kind: ValidatingWebhookConfiguration",
    "another kind": b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: tests}",
    "a version that there never was": GOOD.replace("k8s.io/v1", "k8s.io/v7").encode(),
    "an AdmissionConfiguration": b"apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration",
    "no mapping": b"- allowed",
    "a text": b"allowed: true, or not",
    "no YAML": b"webhooks: [",
    "tabs": GOOD.replace("  ", "\t").encode(),
    "half of a file": GOOD[: len(GOOD) // 2].encode(),
    "no UTF-8": GOOD.encode() + b"# \xff\xfe",
    "zeros, as after a crash": bytes(4096),
    "a key twice": f"{GOOD}kind: ValidatingWebhookConfiguration\n".encode(),
    "an alias of itself": b"kind: &kind [*kind]",
    "nesting without end": b"kind: " + b"[" * 100_000,
    "an unknown field": GOOD.replace("sideEffects", "sideEffect").encode(),
    "a wrong type": GOOD.replace("name: pods.tests.example.com", "name: 7").encode(),
    "no name": GOOD.replace("metadata: {name: tests}", "metadata: {}").encode(),
    "a name twice": f"{GOOD}---{GOOD}".encode(),
    "one bad document after a good one": f"{GOOD}---\nkind: Nonsense\n".encode(),
    "a bad item of a list": b"apiVersion: v1\nkind: List\nitems: [{kind: Nonsense}]",
    "a missing required field": GOOD.replace("  sideEffects: None\n", "").encode(),
    "an unknown failure policy": f"{GOOD}  failurePolicy: Open\n".encode(),
    "a timeout of no length": f"{GOOD}  timeoutSeconds: 0\n".encode(),
    "an unknown operation": GOOD.replace('operations: ["*"]', "operations: [CREAT]").encode(),
    "a URL of no server": GOOD.replace("grpc://127.0.0.1:1", "ftp://127.0.0.1").encode(),
    "a match condition that is no CEL": f"{GOOD}  matchConditions: [{{name: a, expression: 'tru e'}}]\n".encode(),
    "a policy that is no CEL": POLICY.format(expression="object.").encode(),
    "a policy of the wrong type": POLICY.format(expression="1 + 1").encode(),
}


def test_the_valid_configuration_among_the_invalid_ones_loads(tmp_path: Path) -> None:
    """Shows that each of those is denied for its failure."""
    for number, text in enumerate((GOOD, POLICY.format(expression="true"))):
        file = tmp_path / f"{number}.yaml"
        file.write_text(text)
        load_configurations([file])


@both_endpoints
def test_an_invalid_configuration_allows_nothing_the_last_good_one_denied(
    path: str, kind: Kind, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """There is a front door for each of them, some at a time, since a change takes a while to be noticed."""
    phase = "Mutating" if kind is MUTATOR else "Validating"
    names = list(BAD_CONFIGURATIONS)
    batches = [names[first : first + DOORS] for first in range(0, len(names), DOORS)]

    async def allowed(doors: dict[str, RemoteDoor]) -> list[str]:
        answers = await asyncio.gather(*(door.allows(f"{path}?timeout=1s") for door in doors.values()))
        return [name for name, allows in zip(doors, answers, strict=True) if allows]

    def kept() -> int:
        return sum("configuration kept" in record.getMessage() for record in caplog.records)

    async def run(names: list[str]) -> None:
        caplog.clear()
        files = {name: tmp_path / f"{number}.yaml" for number, name in enumerate(names)}
        async with contextlib.AsyncExitStack() as stack:
            address = await stack.enter_async_context(refused())
            doors = {}
            for file in files.values():  # all of them before a front door waits for the first to have settled
                file.write_text(WEBHOOK.format(phase=phase, address=address))
            for name, file in files.items():
                asked = settings(address, address, f"{phase}AdmissionWebhook", config=(file,))
                doors[name] = await stack.enter_async_context(remote_door(asked))
            assert await allowed(doors) == []
            for name, file in files.items():
                file.write_bytes(BAD_CONFIGURATIONS[name])
            async with asyncio.timeout(120):
                while kept() < len(names):  # noqa: ASYNC110 - the log is no event
                    await asyncio.sleep(0.05)
            assert await allowed(doors) == []

    with caplog.at_level("ERROR"):
        for batch in batches:
            asyncio.run(run(batch))


@both_endpoints
def test_reviews_beyond_the_capacity_of_the_front_door_are_not_allowed(path: str, kind: Kind) -> None:
    async def run() -> tuple[int, Any]:
        async with (
            hosting(kind, controllers.allowing) as address,
            remote_door(settings(address, address, max_in_flight_bytes=1)) as door,
        ):
            return await door.post(path, object=PULLED)

    code, body = asyncio.run(run())
    assert (code, body["status"]) == (503, "Failure")


@both_endpoints
def test_reviews_in_flight_when_the_front_door_dies_are_not_allowed(path: str, kind: Kind) -> None:
    async def run() -> tuple[int, Any]:
        began = asyncio.Event()

        async def hanging(review: Any) -> Any:
            began.set()
            return await controllers.hanging(review)

        async with hosting(kind, hanging) as address:
            asked = settings(address, address, default_timeout_seconds=1.0, max_timeout_seconds=1.0)
            async with remote_door(asked) as door:
                asking = asyncio.ensure_future(door.post(path, object=PULLED))
                await began.wait()
                door.server.drain()
                return await asking

    code, body = asyncio.run(run())
    assert code != 200 or body["response"]["allowed"] is False


def test_a_lying_replica_never_gets_a_review_allowed() -> None:
    async def run() -> list[bool]:
        async with contextlib.AsyncExitStack() as stack:
            honest = await stack.enter_async_context(hosting(VALIDATOR, controllers.denying))
            dead = await stack.enter_async_context(refused())
            lying = await stack.enter_async_context(speaking(answering(b"")))
            asked = settings(honest, honest)
            chain = asked.chain
            replicas = FrontDoorSettings(mutator=honest, validators=(honest, dead, lying), chain=chain)
            door: RemoteDoor = await stack.enter_async_context(remote_door(replicas))
            return [await door.allows("/validate", object=PULLED) for _ in range(50)]

    assert not any(asyncio.run(run()))
