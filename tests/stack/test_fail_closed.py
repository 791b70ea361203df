"""Nothing that goes wrong behind the front door, or in it, is ever answered with ``allowed: true``."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from doors.remote import RemoteDoor, remote_door
from frontdoor.settings import FrontDoorSettings
from pratique.admission.v1 import outcome_pb2
from pratique.settings import ChainSettings
from serving import controllers
from serving.faulty_services import (
    CONTROLLER,
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
    talk_nonsense,
    unhealthy,
)
from serving.servers import MUTATOR, VALIDATOR, Kind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from serving.faulty_services import Address

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
"""What goes wrong with a controller of a service that works is a decision; what goes wrong with the service is none."""
UNFIT_PATCH = FAULTS["a patch that does not fit, or is not its to make"]


def settings(
    mutator: str, validator: str, *names: str, config: tuple[Path, ...] = (), **more: Any
) -> FrontDoorSettings:
    chain = ChainSettings(admission_control=names or (CONTROLLER,), config=config)
    return FrontDoorSettings(mutator=mutator, validators=(validator,), chain=chain, **more)


@both_endpoints
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_what_goes_wrong_is_never_allowed(fault: Callable[[Kind], Address], path: str, kind: Kind) -> None:
    async def run() -> tuple[int, Any]:
        async with fault(kind) as address, remote_door(settings(address, address)) as door:
            return await door.post(f"{path}?timeout=1s", object=PULLED)

    code, body = asyncio.run(run())
    decided = fault in DECIDED or (fault is UNFIT_PATCH and kind is MUTATOR)
    assert code == 200 if decided else code in (503, 504)
    assert code != 200 or body["response"]["allowed"] is False
    assert code == 200 or (body["kind"], body["status"], "response" in body) == ("Status", "Failure", False)


@pytest.mark.parametrize(("path", "kind"), ENDPOINTS[:2])
def test_what_goes_well_is_allowed(path: str, kind: Kind) -> None:
    async def run() -> bool:
        async with hosting(kind, controllers.allowing) as at, remote_door(settings(at, at)) as door:
            return await door.allows(path, object=PULLED)

    assert asyncio.run(run())


@both_endpoints
def test_an_answer_that_leaves_a_controller_out_is_not_allowed(path: str, kind: Kind) -> None:
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


@both_endpoints
def test_a_configuration_that_turned_bad_lets_nothing_through_that_the_last_good_one_refused(
    path: str, kind: Kind, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "config.yaml"
    phase = "Mutating" if kind is MUTATOR else "Validating"

    async def run() -> list[bool]:
        async with refused() as address:
            file.write_text(WEBHOOK.format(phase=phase, address=address))
            asked = settings(address, address, f"{phase}AdmissionWebhook", config=(file,))
            async with remote_door(asked) as door:
                before = await door.allows(f"{path}?timeout=1s")
                file.write_text("webhooks: {}")
                while "configuration kept" not in caplog.text:  # noqa: ASYNC110 - the log is no event
                    await asyncio.sleep(0.05)
                return [before, await door.allows(f"{path}?timeout=1s")]

    with caplog.at_level("ERROR"):
        assert asyncio.run(run()) == [False, False]


@both_endpoints
def test_reviews_that_the_front_door_has_no_room_for_are_not_allowed(path: str, kind: Kind) -> None:
    async def run() -> tuple[int, Any]:
        async with (
            hosting(kind, controllers.allowing) as address,
            remote_door(settings(address, address, max_in_flight_bytes=1)) as door,
        ):
            return await door.post(path, object=PULLED)

    code, body = asyncio.run(run())
    assert (code, body["status"]) == (503, "Failure")


@both_endpoints
def test_reviews_that_outlive_the_front_door_are_not_allowed(path: str, kind: Kind) -> None:
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


def test_one_that_lies_among_replicas_never_gets_a_review_through() -> None:
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
