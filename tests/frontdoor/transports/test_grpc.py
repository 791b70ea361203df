"""The gRPC transport, against real servers."""

from __future__ import annotations

import asyncio
import collections
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import msgspec
import pytest
from google.protobuf.message import Message

from pratique.admission.controllers import VALIDATE
from pratique.admission.results import Answer, Denied, Patched, allow
from pratique.admission.reviews import Call, Deadline, Review
from pratique.admission.v1.outcome_pb2 import Allowed, Outcome
from pratique.admission.v1.validator_service_pb2 import ValidateResponse
from pratique.apimachinery.errors import (
    BadAnswerError,
    CallError,
    CallTimeoutError,
    MismatchError,
    UnreachableError,
)
from pratique.hosting.catalogue import HostedController
from pratique.rpc.servers import RpcServer, ServerSettings
from pratique.rpc.wire_format import MAX_FIELDS
from pratique_frontdoor.transports.channels import grpc_target
from pratique_frontdoor.transports.grpc import GrpcTransport
from support.chains import decided, pod_review
from support.services.controllers import allowing, denying, hosted, labelling
from support.services.faulty_services import echoing, speaking
from support.services.servers import MUTATOR, VALIDATOR, Kind
from support.webhook_servers import closed_port


@contextlib.asynccontextmanager
async def served(kind: Kind, *controllers: HostedController) -> AsyncIterator[tuple[str, RpcServer]]:
    server = RpcServer(kind.services(controllers), ServerSettings(drain_seconds=0, port=0))
    address = await server.start()
    try:
        yield address, server
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def transport(*addresses: str, **options: Any) -> AsyncIterator[GrpcTransport]:
    opened = GrpcTransport(grpc_target(addresses), **options)
    try:
        yield opened
    finally:
        await opened.close()


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]  # every caller passes a coroutine function


def soon() -> Deadline:
    return Deadline.after(30)


def test_mutating_outcomes_are_returned_in_order() -> None:
    async def test() -> None:
        controllers = hosted("A", labelling("a")), hosted("B", denying)
        async with served(MUTATOR, *controllers) as (address, _), transport(address) as client:
            outcomes = await client.mutate(pod_review(), [Call("A"), Call("B")], soon())
        assert [type(outcome.decision) for outcome in outcomes] == [Patched, Denied]

    run(test)


def test_validators_share_the_calls_evenly() -> None:
    counts: collections.Counter[str] = collections.Counter()

    def counting(name: str) -> HostedController:
        def half(_: Review) -> Answer:
            counts[name] += 1
            return allow()

        return hosted("Count", half)

    async def test() -> None:
        async with (
            served(VALIDATOR, counting("a")) as (a, _),
            served(VALIDATOR, counting("b")) as (b, _),
            transport(a, b) as client,
        ):
            for _ in range(200):
                await client.validate(pod_review(), [Call("Count")], soon())

    run(test)
    assert sum(counts.values()) == 200
    assert 90 <= counts["a"] <= 110


def test_a_draining_validator_gets_no_more_calls() -> None:
    async def test() -> None:
        async with (
            served(VALIDATOR, hosted("A", allowing)) as (first, leaving),
            served(VALIDATOR, hosted("A", allowing)) as (second, _),
            transport(first, second) as client,
        ):
            for number in range(100):
                if number == 50:
                    await leaving.stop()
                await client.validate(pod_review(), [Call("A")], soon())

    run(test)


def test_a_missing_service_is_unreachable() -> None:
    async def test() -> None:
        with closed_port() as port:
            async with transport(f"127.0.0.1:{port}") as client:
                await ask(client)

    async def ask(client: GrpcTransport) -> None:
        with pytest.raises(UnreachableError, match=r"rpc error: code = Unavailable"):
            await client.validate(pod_review(), [Call("A")], Deadline.after(2))

    run(test)


def test_a_call_to_a_hanging_service_ends_at_the_deadline() -> None:
    async def hanging(_: Review) -> Answer:
        await asyncio.sleep(60)
        return allow()

    async def test() -> None:
        async with served(VALIDATOR, hosted("Slow", hanging)) as (address, _), transport(address) as client:
            decision = await decided(
                pod_review(),
                [hosted("Slow", hanging).controller],
                host=client,
                seconds=0.3,
                phases=VALIDATE,
            )
        assert decision.status is not None
        assert (decision.allowed, decision.status.code) == (False, 500)

    run(test)


async def _answer_nothing(_: bytes, __: object) -> bytes:
    return b""


async def _fail_with_a_secret(_: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
    await context.abort(grpc.StatusCode.INTERNAL, "canary-secret")
    return b""


async def _hang(_: bytes, __: object) -> bytes:
    await asyncio.sleep(60)
    return b""


@pytest.mark.parametrize(
    ("handler", "error"),
    [(_answer_nothing, BadAnswerError), (_fail_with_a_secret, CallError), (_hang, CallTimeoutError)],
    ids=["answers nothing", "fails", "hangs"],
)
@pytest.mark.parametrize("method", ["mutate", "validate"])
def test_an_answer_that_breaks_the_contract_is_a_failed_call(
    handler: Any, error: type[CallError], method: str
) -> None:
    async def test() -> None:
        async with speaking(handler) as address, transport(address) as client:
            with pytest.raises(error) as raised:
                await getattr(client, method)(pod_review(), [Call("A")], Deadline.after(0.3))
        assert "canary-secret" not in str(raised.value)

    run(test)


async def _answer_with_many_warnings(_: bytes, __: object) -> bytes:
    outcome = Outcome(controller="A", allowed=Allowed(), warnings=[""] * MAX_FIELDS)
    answer: bytes = ValidateResponse(verdicts=[outcome]).SerializeToString()
    return answer


@pytest.mark.parametrize("method", ["mutate", "validate"])
def test_an_answer_of_too_many_fields_is_a_failed_call(method: str) -> None:
    async def test() -> None:
        async with speaking(_answer_with_many_warnings) as address, transport(address) as client:
            with pytest.raises(BadAnswerError, match=f"it holds more than {MAX_FIELDS} fields"):
                await getattr(client, method)(pod_review(), [Call("A")], Deadline.after(30))

    run(test)


def _saying(uid: str | None) -> Any:
    def answer(requested_uid: str, _: str) -> Message:
        verdict = Outcome(controller="A", allowed=Allowed())
        return ValidateResponse(verdicts=[verdict], uid=requested_uid if uid is None else uid)

    return echoing(answer)


@pytest.mark.parametrize(
    ("uid", "ours", "believed"),
    [
        (None, False, True),
        (None, True, True),
        ("", False, True),
        ("", True, False),
        ("another", False, False),
        ("another", True, False),
    ],
)
def test_an_answer_for_another_review_is_refused(uid: str | None, *, ours: bool, believed: bool) -> None:
    """Other services, which may predate the field, may leave it empty."""

    async def test() -> None:
        async with speaking(_saying(uid)) as address, transport(address, ours=ours) as client:
            asking = client.validate(pod_review(), [Call("A")], soon())
            if believed:
                assert len(await asking) == 1
            else:
                with pytest.raises(BadAnswerError, match="review"):
                    await asking

    run(test)


@pytest.mark.parametrize("ours", [False, True])
def test_only_services_of_this_suite_need_the_same_digest(*, ours: bool) -> None:
    async def test() -> None:
        review = msgspec.structs.replace(pod_review(), digest="0d" * 16)
        async with (
            served(VALIDATOR, hosted("A", allowing)) as (address, _),
            transport(address, ours=ours) as client,
        ):
            asking = client.validate(review, [Call("A")], soon())
            if ours:
                with pytest.raises(MismatchError, match="decides by other inputs"):
                    await asking
            else:
                assert len(await asking) == 1

    run(test)
