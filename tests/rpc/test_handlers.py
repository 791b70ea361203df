"""What stands between gRPC and a method: interceptors, deadlines, retries, inputs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import grpc
import pytest

from pratique.admission.reviews import Deadline
from pratique.admission.v1.review_pb2 import GroupVersionKind
from pratique.apimachinery.errors import InputError
from pratique.configuration.input_digests import InputDigests, RecentInputs
from pratique.rpc.handlers import (
    ATTEMPTS_KEY,
    CODE_NAMES,
    CODE_NAMES_BY_NUMBER,
    NOT_HELD,
    BytesHandler,
    ConcurrencyLimit,
    IncomingRequest,
    controllers_deadline,
    held_or_abort,
    hide_errors,
    intercepted,
    is_retry,
    report_bad_requests,
    require_deadline,
    unary_handler,
)

SECRET = "canary-8c1e"


class FakeContext:
    """A call's context, without a call."""

    def __init__(self, remaining: float | None = 10.0, *metadata: tuple[str, str]) -> None:
        self.remaining = remaining
        self.metadata = metadata
        self.aborted: tuple[grpc.StatusCode, str] | None = None

    def time_remaining(self) -> float | None:
        return self.remaining

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self.metadata

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing: Any = ()) -> NoReturn:
        self.aborted = (code, details)
        raise grpc.aio.AbortError


def call(handler: BytesHandler, context: FakeContext, request: bytes = b"") -> bytes | None:
    """The handler's response; None if it aborts the call."""
    answered: Any = handler(request, context)  # type: ignore[arg-type]  # the part that is used

    async def run() -> bytes:
        response: bytes = await answered
        return response

    try:
        return asyncio.run(run())
    except grpc.aio.AbortError:
        return None


async def echo(request: bytes, _context: object) -> bytes:
    return request


def raising(error: Exception) -> BytesHandler:
    async def handler(_request: bytes, _context: object) -> bytes:
        raise error

    return handler


def test_an_error_is_answered_by_an_id_that_the_log_has_and_by_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    context = FakeContext()
    with caplog.at_level(logging.ERROR):
        assert call(hide_errors(raising(ValueError(SECRET))), context) is None
    assert context.aborted is not None
    code, details = context.aborted
    assert code is grpc.StatusCode.INTERNAL
    [record] = caplog.records
    assert details == f"internal error {vars(record)['error_id']}"
    assert SECRET not in details + caplog.text + str(vars(record))


def test_a_call_that_was_aborted_stays_aborted() -> None:
    context = FakeContext(None)
    assert call(hide_errors(require_deadline(echo)), context) is None
    assert context.aborted is not None
    assert context.aborted[0] is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(("remaining", "answer"), [(None, None), (0.0, b"x"), (30.0, b"x")])
def test_only_a_call_with_a_deadline_is_answered(remaining: float | None, answer: bytes | None) -> None:
    assert call(require_deadline(echo), FakeContext(remaining), b"x") == answer


def test_a_bad_request_is_answered_with_the_first_1024_characters_of_the_reason() -> None:
    context = FakeContext()
    assert call(report_bad_requests(raising(InputError("x" * 2000))), context) is None
    assert context.aborted == (grpc.StatusCode.INVALID_ARGUMENT, "x" * 1024)


def test_a_request_that_cannot_be_decoded_is_named_by_its_type() -> None:
    async def method(_request: IncomingRequest[GroupVersionKind], _context: object) -> GroupVersionKind:
        raise AssertionError

    context = FakeContext()
    handler: Any = unary_handler(GroupVersionKind, method)
    assert call(handler.unary_unary, context, b"\xff") is None
    details = "the request is not a pratique.admission.v1.GroupVersionKind"
    assert context.aborted == (grpc.StatusCode.INVALID_ARGUMENT, details)


def test_a_method_gets_the_encoded_length_of_its_request() -> None:
    async def method(request: IncomingRequest[GroupVersionKind], _context: object) -> GroupVersionKind:
        return GroupVersionKind(kind=f"{request.message.kind} {request.size_bytes}")

    encoded = GroupVersionKind(kind="Pod").SerializeToString()
    handler: Any = unary_handler(GroupVersionKind, method)
    response = call(handler.unary_unary, FakeContext(), encoded)
    assert GroupVersionKind.FromString(response or b"").kind == f"Pod {len(encoded)}"


def test_a_call_beyond_the_limit_is_rejected_until_another_has_ended() -> None:
    async def run() -> list[bytes | BaseException]:
        limit, release = ConcurrencyLimit(2), asyncio.Event()

        async def waiting(request: bytes, _context: object) -> bytes:
            await release.wait()
            return request

        handler: Callable[[bytes, Any], Awaitable[bytes]] = limit.limit(waiting)
        first = [asyncio.ensure_future(handler(b"%d" % n, FakeContext())) for n in range(2)]
        await asyncio.sleep(0)
        third = await asyncio.gather(handler(b"2", FakeContext()), return_exceptions=True)
        first[0].cancel()
        await asyncio.wait([first[0]])
        release.set()
        return [*third, *await asyncio.gather(first[1], handler(b"3", FakeContext()))]

    rejected, *answered = asyncio.run(run())
    assert isinstance(rejected, grpc.aio.AbortError)
    assert answered == [b"1", b"3"]


def test_a_call_whose_request_has_too_many_bytes_beside_others_is_rejected_until_they_have_ended() -> None:
    async def run() -> list[bytes | BaseException]:
        limit, release = ConcurrencyLimit(9, max_bytes=10), asyncio.Event()

        async def waiting(request: bytes, _context: object) -> bytes:
            await release.wait()
            return request

        handler: Callable[[bytes, Any], Awaitable[bytes]] = limit.limit(waiting)
        first = asyncio.ensure_future(handler(b"123456", FakeContext()))
        await asyncio.sleep(0)
        second = await asyncio.gather(handler(b"12345", FakeContext()), return_exceptions=True)
        release.set()
        return [
            *second,
            await handler(b"1234", FakeContext()),
            await first,
            await handler(b"12345", FakeContext()),
        ]

    rejected, *answered = asyncio.run(run())
    assert isinstance(rejected, grpc.aio.AbortError)
    assert answered == [b"1234", b"123456", b"12345"]


def test_an_interceptor_added_later_runs_first() -> None:
    ran: list[str] = []

    def noting(name: str) -> Callable[[BytesHandler], BytesHandler]:
        def intercept(handler: BytesHandler) -> BytesHandler:
            async def noted(request: bytes, context: Any) -> bytes:
                ran.append(name)
                return await handler(request, context)

            return noted

        return intercept

    methods = {"M": grpc.unary_unary_rpc_method_handler(echo)}
    wrapped: Any = intercepted(intercepted(methods, noting("inner")), noting("outer"))["M"]
    assert call(wrapped.unary_unary, FakeContext(), b"x") == b"x"
    assert ran == ["outer", "inner"]


@pytest.mark.parametrize(
    ("metadata", "retry"),
    [
        ((), False),
        ((("traceparent", "00-1"),), False),
        ((("grpc-previous-rpc-attempts", "1"),), True),
        ((("traceparent", "00-1"), (ATTEMPTS_KEY, "2")), True),
    ],
)
def test_a_retry_is_known_by_its_metadata(metadata: tuple[tuple[str, str], ...], *, retry: bool) -> None:
    context: Any = FakeContext(10, *metadata)
    assert is_retry(context) is retry


@pytest.mark.parametrize(("remaining", "margin"), [(30.0, 0.05), (0.5, 0.05), (0.2, 0.02), (0.0, 0.0)])
def test_controllers_end_a_tenth_or_at_most_50_milliseconds_before_the_call(
    remaining: float, margin: float
) -> None:
    context: Any = FakeContext(remaining)
    before, deadline, after = Deadline.after(0), controllers_deadline(context), Deadline.after(0)
    assert deadline is not None
    assert before.at <= deadline.at - (remaining - margin) + 1e-6
    assert deadline.at - (remaining - margin) - 1e-6 <= after.at


def test_a_call_without_a_deadline_gives_controllers_none() -> None:
    context: Any = FakeContext(None)
    assert controllers_deadline(context) is None


def test_codes_have_the_names_that_go_gives_them() -> None:
    assert CODE_NAMES[grpc.StatusCode.OK] == "OK"
    assert CODE_NAMES[grpc.StatusCode.CANCELLED] == "Canceled"
    assert CODE_NAMES[grpc.StatusCode.DEADLINE_EXCEEDED] == "DeadlineExceeded"
    assert {code.value[0] for code in grpc.StatusCode} == CODE_NAMES_BY_NUMBER.keys()


def test_a_call_is_decided_by_the_inputs_that_it_names_or_by_the_current_ones() -> None:
    async def run() -> None:
        old, new = InputDigests("1", "a", "b", "c"), InputDigests("2", "a", "b", "d")
        held = RecentInputs(old, "old host")
        held.switch_to(new, "new host")
        context: Any = FakeContext()
        assert await held_or_abort(held, "", context) == ("2", "new host")
        assert await held_or_abort(held, "1", context) == ("1", "old host")
        with pytest.raises(grpc.aio.AbortError):
            await held_or_abort(held, "3", context)
        assert context.aborted[0] is NOT_HELD
        assert held.mismatches == 1
        held.close()

    asyncio.run(run())
