"""Streams of calls: each call on one is as good as a call by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import grpc
import pytest

from pratique.admission.results import Answer, allow
from pratique.admission.reviews import Review
from pratique.hosting.catalogue import HostedController
from pratique.rpc.servers import RpcServer, ServerSettings
from support.services import controllers
from support.services.controllers import SECRET, hosted
from support.services.servers import KINDS, VALIDATOR, Kind, serving
from support.services.streams import SECONDS, Stream, streaming

both_services = pytest.mark.parametrize("kind", KINDS, ids=str)
ALLOWING = hosted("a", controllers.allowing)


def on_stream(
    kind: Kind,
    test: Callable[[Stream], Awaitable[None]],
    *hosting: HostedController,
    limit: int = 1000,
) -> None:
    """Run a test with a stream to a service that hosts ``a``, which allows everything, and more."""

    async def run() -> None:
        async with (
            serving(kind, ALLOWING, *hosting, max_concurrent_calls=limit) as channel,
            streaming(kind, channel) as stream,
        ):
            await test(stream)

    asyncio.run(run())


@both_services
def test_every_call_gets_its_own_answer_in_any_order(kind: Kind) -> None:
    release = asyncio.Event()

    async def waiting(_: Review) -> Answer:
        await release.wait()
        return allow()

    async def test(stream: Stream) -> None:
        await stream.send(stream.asking(7, "w"), stream.asking(8, "a"), stream.asking(9, "gone"))
        assert {await stream.decision(), await stream.decision()} == {(8, "Allowed"), (9, "Failed")}
        release.set()
        assert await stream.decision() == (7, "Allowed")

    on_stream(kind, test, hosted("w", waiting))


@both_services
def test_a_call_that_breaks_the_contract_fails_alone(kind: Kind) -> None:
    async def test(stream: Stream) -> None:
        await stream.send(
            stream.asking(1, "a", request=b"\xff"),
            stream.asking(2, "a", millis=0),
            stream.asking(3, "a", request=b""),
            stream.asking(4, "a"),
        )
        answers = {answer.id: answer for answer in [await stream.answer() for _ in range(4)]}
        codes = {
            number: answer.status.code for number, answer in answers.items() if answer.HasField("status")
        }
        assert codes == dict.fromkeys((1, 2, 3), grpc.StatusCode.INVALID_ARGUMENT.value[0])
        assert answers[2].status.message.startswith("the call has no deadline")
        assert answers[3].status.message == "review is missing"

    on_stream(kind, test)


@both_services
@pytest.mark.parametrize("ending", ["its deadline passes", "it is given up", "the client goes away"])
def test_a_controller_is_cancelled_when(kind: Kind, ending: str) -> None:
    began, cancelled = asyncio.Event(), asyncio.Event()

    async def noticing(_: Review) -> Answer:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return allow()

    async def test(stream: Stream) -> None:
        await stream.send(stream.asking(1, "n", 2000 if ending == "its deadline passes" else 30_000))
        await asyncio.wait_for(began.wait(), SECONDS)
        if ending == "it is given up":
            await stream.send(stream.asking(2, "a"), give_up=(1, 99))
        if ending == "the client goes away":
            stream.call.cancel()
        await asyncio.wait_for(cancelled.wait(), SECONDS)
        if ending == "it is given up":
            seen = await stream.decision()
            assert seen == (2, "Allowed") or await stream.decision() == (2, "Allowed")

    on_stream(kind, test, hosted("n", noticing))


@both_services
def test_a_call_beyond_the_limit_is_rejected_and_the_others_are_answered(kind: Kind) -> None:
    release = asyncio.Event()

    async def waiting(_: Review) -> Answer:
        await release.wait()
        return allow()

    async def test(stream: Stream) -> None:
        await stream.send(stream.asking(1, "w"), stream.asking(2, "a"))
        assert await stream.decision() == (2, "RESOURCE_EXHAUSTED")
        release.set()
        assert await stream.decision() == (1, "Allowed")

    on_stream(kind, test, hosted("w", waiting), limit=1)


@both_services
def test_more_calls_than_a_stream_holds_at_a_time_are_all_answered(kind: Kind) -> None:
    async def test(stream: Stream) -> None:
        await stream.send(*(stream.asking(number, "a") for number in range(1500)))
        assert sorted([(await stream.answer()).id for _ in range(1500)]) == list(range(1500))

    on_stream(kind, test, limit=2000)


@both_services
def test_calls_in_progress_are_answered_after_the_last_call(kind: Kind) -> None:
    async def slow(_: Review) -> Answer:
        await asyncio.sleep(0.1)
        return allow()

    async def test(stream: Stream) -> None:
        await stream.send(stream.asking(1, "s"))
        await stream.call.done_writing()
        assert await stream.decision() == (1, "Allowed")
        assert not await stream.receive()
        assert await stream.call.code() is grpc.StatusCode.OK

    on_stream(kind, test, hosted("s", slow))


@both_services
@pytest.mark.parametrize("fault", ["unreadable", "an id twice"])
def test_a_stream_whose_client_breaks_the_contract_ends(kind: Kind, fault: str) -> None:
    async def test(stream: Stream) -> None:
        if fault == "unreadable":
            await stream.call.write(b"\xff")
        else:
            await stream.send(stream.asking(1, "h"), stream.asking(1, "h"))
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stream.receive()
        assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    on_stream(kind, test, hosted("h", controllers.hanging))


@both_services
def test_a_service_that_drains_says_so_and_answers_what_it_was_sent(kind: Kind) -> None:
    async def slow(_: Review) -> Answer:
        await asyncio.sleep(0.2)
        return allow()

    async def run() -> None:
        settings = ServerSettings(port=0, drain_seconds=0.05)
        server = RpcServer(kind.services([hosted("s", slow)]), settings)
        address = await server.start()
        async with grpc.aio.insecure_channel(address) as channel, streaming(kind, channel) as stream:
            await stream.send(stream.asking(1, "s"))
            draining = asyncio.ensure_future(server.drain())
            assert await stream.receive()
            assert stream.leaving.is_set()
            await stream.send(stream.asking(2, "s"))
            assert [await stream.decision(), await stream.decision()] == [(1, "Allowed"), (2, "Allowed")]
            assert not await stream.receive()
            await draining

    asyncio.run(run())


@both_services
def test_a_call_says_that_it_is_a_retry_and_what_its_metadata_would_say(kind: Kind) -> None:
    retries: list[bool] = []

    def noting(review: Review) -> Answer:
        retries.append(review.is_retry)
        return allow()

    async def test(stream: Stream) -> None:
        await stream.send(stream.asking(1, "n", metadata={"traceparent": "00-1"}))
        await stream.answer()
        await stream.send(stream.asking(2, "n", previous_attempts=1))
        await stream.answer()

    on_stream(kind, test, hosted("n", noting, trusted=True))
    assert retries == [False, True]


def test_an_internal_error_is_not_revealed() -> None:
    async def test(stream: Stream) -> None:
        await stream.send(stream.asking(1, "b"))
        answer = await stream.answer()
        assert answer.HasField("response")
        assert SECRET not in str(answer)

    on_stream(VALIDATOR, test, hosted("b", controllers.raising(ValueError(SECRET))))
