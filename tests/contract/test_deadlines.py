"""Every call has a deadline, and nothing outlives it."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from pratique.admission.results import Answer, Failed, FailureKind, Outcome, allow
from pratique.admission.reviews import Call, Review
from pratique.admission.v1 import catalogue_service_pb2, catalogue_service_pb2_grpc
from pratique.rpc import handlers
from support.services import controllers
from support.services.controllers import hosted
from support.services.reviews import review_of
from support.services.servers import KINDS, Kind, serving

pytestmark = pytest.mark.parametrize("kind", KINDS, ids=str)


def test_a_call_without_a_deadline_is_rejected(kind: Kind) -> None:
    async def run() -> grpc.aio.AioRpcError:
        async with serving(kind, hosted("c", controllers.allowing)) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await kind.ask(channel, review_of(), [Call("c")], seconds=None)
        return error.value

    error = asyncio.run(run())
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.details() == (
        "the call has no deadline: set one of at most 30 seconds, the longest that admission can take"
    )


def test_describe_without_a_deadline_is_rejected_too(kind: Kind) -> None:
    async def run() -> grpc.StatusCode:
        async with serving(kind) as channel:
            stub = catalogue_service_pb2_grpc.CatalogueServiceStub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await stub.Describe(catalogue_service_pb2.DescribeRequest())
        return error.value.code()

    assert asyncio.run(run()) is grpc.StatusCode.INVALID_ARGUMENT


def test_a_hanging_controller_times_out_before_the_deadline(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "_MAX_MARGIN_SECONDS", 10)  # leaves a tenth, for a machine that is busy

    async def run() -> list[Outcome]:
        async with serving(
            kind, hosted("a", controllers.allowing), hosted("h", controllers.hanging)
        ) as channel:
            return await kind.ask(channel, review_of(), [Call("a"), Call("h", 60)], seconds=2)

    answered, hung = asyncio.run(run())
    assert not isinstance(answered.decision, Failed)
    assert hung.decision == Failed(FailureKind.TIMEOUT, "context deadline exceeded")


@pytest.mark.parametrize("ending", ["the deadline passes", "the client goes away"])
def test_a_controller_is_cancelled_when(kind: Kind, ending: str) -> None:
    async def run() -> None:
        began, cancelled = asyncio.Event(), asyncio.Event()

        async def noticing(_review: Review) -> Answer:
            began.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise
            return allow()

        async with serving(kind, hosted("c", noticing)) as channel:
            timeout = 2 if ending == "the deadline passes" else 30
            asking = asyncio.ensure_future(kind.ask(channel, review_of(), [Call("c")], timeout))
            await asyncio.wait_for(began.wait(), 120)
            if ending == "the client goes away":
                asking.cancel()
            await asyncio.wait_for(cancelled.wait(), 120)
            await asyncio.wait([asking])

    asyncio.run(run())
