"""What goes wrong costs as little as can be, and shows nothing of the objects."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import grpc
import pytest

from pratique.admission.controllers import Handler
from pratique.admission.results import Allow, Allowed, Failed, FailureKind, Outcome, allow
from pratique.admission.reviews import Call, Review
from pratique.admission.v1 import mutator_service_pb2, review_pb2
from pratique.apimachinery.errors import InputError
from pratique.rpc import messages
from pratique.rpc.handlers import unary_handler
from pratique.rpc.servers import RpcServer, RpcService, ServerSettings
from support.services import controllers
from support.services.controllers import SECRET, hosted
from support.services.reviews import POD, review_of
from support.services.servers import KINDS, MUTATOR, VALIDATOR, Kind, serving

CANARY_POD = POD | {"metadata": {"name": SECRET, "annotations": {SECRET: SECRET}}}
both_services = pytest.mark.parametrize("kind", KINDS, ids=str)


def failure_of(kind: Kind, request: bytes) -> grpc.aio.AioRpcError:
    """Send bytes to the service, which refuses them."""

    async def run() -> grpc.aio.AioRpcError:
        async with serving(
            kind, hosted("c", lambda review: review.object and controllers.allowing(review))
        ) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await kind.send(channel, request)
            return error.value

    return asyncio.run(run())


@both_services
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda request: request.ClearField("review"), "review is missing"),
        (lambda request: request.ClearField("controllers"), "controllers is empty: name at least one"),
        (lambda request: request.review.ClearField("uid"), "review.uid is missing"),
        (lambda request: request.review.ClearField("kind"), "review.kind is missing"),
        (lambda request: request.review.ClearField("resource"), "review.resource is missing"),
        (lambda request: request.review.ClearField("operation"), "review.operation must be one of"),
        (lambda request: setattr(request.controllers[0], "timeout_millis", -1), "controllers.timeout_millis"),
        (lambda request: setattr(request.review, "object", SECRET.encode()), "review.object is not JSON"),
        (lambda request: setattr(request.review, "object", b'{"a": "\xff"}'), "review.object is not JSON"),
    ],
)
def test_a_request_that_breaks_the_contract_is_rejected_with_the_reason(
    kind: Kind, spoil: Callable[[mutator_service_pb2.MutateRequest], None], words: str
) -> None:
    request = kind.request(review_of(), [Call("c")])
    spoil(request)
    error = failure_of(kind, request.SerializeToString())
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert (error.details() or "").startswith(words)
    assert SECRET not in str(error)


@both_services
@pytest.mark.parametrize("raw", [SECRET.encode(), b"\x0a", b"\xff" * 100])
def test_bytes_that_are_not_a_request_are_rejected_with_the_reason(kind: Kind, raw: bytes) -> None:
    error = failure_of(kind, raw)
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    name = "MutateRequest" if kind is MUTATOR else "ValidateRequest"
    assert error.details() == f"the request is not a pratique.admission.v1.{name}"


def outcomes_of(kind: Kind, *handlers: Handler) -> list[Outcome]:
    """Call controllers of those handlers, ``c0`` and so on, on a Pod that is full of secrets."""

    async def run() -> list[Outcome]:
        hosting = [hosted(f"c{place}", handler) for place, handler in enumerate(handlers)]
        calls = [
            Call(call_code.controller.name, 0.2 if handler in NEVER_DONE else 20)
            for call_code, handler in zip(hosting, handlers, strict=True)
        ]
        async with serving(kind, *hosting) as channel:
            return await kind.ask(channel, review_of(CANARY_POD), calls)

    return asyncio.run(run())


NEVER_DONE = (controllers.hanging, controllers.stubborn)
BROKEN: dict[str, Handler] = {
    "raises": controllers.raising(ValueError(SECRET)),
    "raises later": controllers.raising_later(KeyError(SECRET)),
    "exits": controllers.raising(SystemExit(SECRET)),
    "exits later": controllers.raising_later(SystemExit(SECRET)),
    "recurses": controllers.raising(RecursionError(SECRET)),
    "hangs": controllers.hanging,
    "goes on when cancelled": controllers.stubborn,
    "answers None": lambda _: None,  # type: ignore[dict-item,return-value]  # on purpose
    "answers a coroutine that raises": controllers.raising_later(ValueError(SECRET)),
    "looks where nothing is": lambda review: review.object["spec"][SECRET],
}


@both_services
@pytest.mark.parametrize("handler", BROKEN.values(), ids=BROKEN)
def test_a_failing_controller_affects_only_its_own_outcome_and_leaks_nothing(
    kind: Kind, handler: Handler, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG):
        outcomes = outcomes_of(kind, controllers.allowing, handler, controllers.allowing)
    assert isinstance(outcomes[0].decision, Allowed)
    assert isinstance(outcomes[1].decision, Failed)
    # A mutator ends with what failed; the verdicts of a validator are each other's equals.
    assert [type(outcome.decision) for outcome in outcomes[2:]] == ([Allowed] if kind is VALIDATOR else [])
    assert SECRET not in str(outcomes)
    assert SECRET not in caplog.text
    assert SECRET not in str(capfd.readouterr())


@both_services
def test_an_unknown_controller_is_a_failed_outcome(kind: Kind) -> None:
    async def run() -> list[Outcome]:
        async with serving(kind) as channel:
            return await kind.ask(channel, review_of(), [Call("Nobody")])

    [outcome] = asyncio.run(run())
    assert isinstance(outcome.decision, Failed)
    assert outcome.decision.kind is FailureKind.UNKNOWN_CONTROLLER


def error_of(method: Callable[..., Awaitable[NoReturn]]) -> grpc.aio.AioRpcError:
    """What a client is told by a mutator of which this is the method."""

    async def run() -> grpc.aio.AioRpcError:
        name = "pratique.admission.v1.MutatorService"
        service = RpcService(name, {"Mutate": unary_handler(mutator_service_pb2.MutateRequest, method)})
        server = RpcServer([service], ServerSettings())
        try:
            async with grpc.aio.insecure_channel(await server.start()) as channel:
                with pytest.raises(grpc.aio.AioRpcError) as error:
                    await MUTATOR.ask(channel, review_of(), [Call("c")])
                return error.value
        finally:
            await server.stop()

    return asyncio.run(run())


def test_an_error_in_the_service_itself_is_answered_with_an_id(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    async def broken(_request: mutator_service_pb2.MutateRequest, _context: object) -> NoReturn:
        raise ValueError(SECRET)

    with caplog.at_level(logging.DEBUG):
        error = error_of(broken)
    assert error.code() is grpc.StatusCode.INTERNAL
    match = re.fullmatch(r"internal error ([0-9a-f]{32})", error.details() or "")
    assert match
    [record] = [each for each in caplog.records if each.name == "pratique.rpc.handlers"]
    assert vars(record)["error_id"] == match[1]
    assert vars(record)["error"].startswith("ValueError < broken (contract/test_failures.py:")
    for seen in (str(error), str(error.trailing_metadata()), caplog.text, str(capfd.readouterr())):
        assert SECRET not in seen


def test_a_long_error_is_shortened_and_not_replaced() -> None:
    """gRPC would make RESOURCE_EXHAUSTED of a status of more than 8 KiB."""

    async def complaining(_request: mutator_service_pb2.MutateRequest, _context: object) -> NoReturn:
        raise InputError("x" * 9000)

    error = error_of(complaining)
    assert (error.code(), error.details()) == (grpc.StatusCode.INVALID_ARGUMENT, "x" * 1024)


def test_calls_beyond_the_limit_are_rejected_at_once() -> None:
    async def run() -> list[grpc.StatusCode | None]:
        async def call_code(channel: grpc.aio.Channel) -> grpc.StatusCode | None:
            try:
                await VALIDATOR.ask(channel, review_of(), [Call("h", 0.5)])
            except grpc.aio.AioRpcError as error:
                return error.code()
            return None

        async with serving(VALIDATOR, hosted("h", controllers.hanging), max_concurrent_calls=4) as channel:
            return await asyncio.gather(*(call_code(channel) for _ in range(12)))

    codes = asyncio.run(run())
    assert codes.count(None) >= 4
    assert set(codes) == {None, grpc.StatusCode.RESOURCE_EXHAUSTED}


@both_services
def test_rejected_calls_are_not_retried(kind: Kind) -> None:
    begun = asyncio.Event()

    async def waiting(_: Review) -> Allow:
        begun.set()
        await asyncio.Event().wait()
        return allow()

    async def run() -> grpc.aio.AioRpcError:
        async with serving(kind, hosted("h", waiting), max_concurrent_calls=1) as channel:
            first = asyncio.ensure_future(kind.ask(channel, review_of(), [Call("h", 5)]))
            await begun.wait()
            with pytest.raises(grpc.aio.AioRpcError) as refusal:
                await kind.ask(channel, review_of(), [Call("h", 5)])
            first.cancel()
            return refusal.value

    error = asyncio.run(run())
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert error.details() == "too many calls are in flight"
    metadata: Any = error.trailing_metadata()
    assert ("grpc-retry-pushback-ms", "-1") in list(metadata)


@both_services
def test_a_call_stops_counting_however_it_ends(kind: Kind) -> None:
    async def run() -> list[type]:
        async with serving(kind, hosted("c", controllers.allowing), max_concurrent_calls=1) as channel:
            with pytest.raises(grpc.aio.AioRpcError):
                await kind.send(channel, b"\xff")
            return [type((await kind.ask(channel, review_of(), [Call("c")]))[0].decision) for _ in range(3)]

    assert asyncio.run(run()) == [Allowed] * 3


def test_a_stranger_who_speaks_only_the_proto_is_understood() -> None:
    request = mutator_service_pb2.MutateRequest(
        review=review_pb2.Review(
            uid="u",
            operation=review_pb2.OPERATION_CREATE,
            kind=review_pb2.GroupVersionKind(kind="Pod"),
            resource=review_pb2.GroupVersionResource(resource="pods"),
        ),
        controllers=[review_pb2.ControllerCall(name="c")],
    )

    async def run() -> bytes:
        async with serving(MUTATOR, hosted("c", controllers.allowing)) as channel:
            return await MUTATOR.send(channel, request)

    response = mutator_service_pb2.MutateResponse.FromString(asyncio.run(run()))
    assert [type(each.decision) for each in messages.outcomes_from_mutate(response, [Call("c")])] == [Allowed]
