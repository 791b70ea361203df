"""Streams in the event loop: messages, flow control, ends, and clients that break every rule of HTTP/2."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import hpack
import pytest
from h2.errors import ErrorCodes
from hypothesis import given, settings
from hypothesis import strategies as st

from pratique.rpc import stream_listeners
from pratique.rpc.http2 import STREAM_WINDOW_BYTES, Keepalive, StreamEndedError
from support.services.loop_streams import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    HOST,
    PADDED,
    PATH,
    PING,
    PREFACE,
    PRIORITY,
    PUSH,
    REQUEST,
    RST,
    SECONDS,
    SETTINGS,
    WINDOW,
    Peer,
    echo,
    frame,
    headers,
    hostile_client,
    listening,
    message,
    opened,
)
from support.waiting import until

MAX_MESSAGE = 16 * 1024 * 1024
sizes = st.one_of(st.integers(0, 40_000), st.sampled_from([16_379, 16_380, 65_530, 2_000_000]))


async def echoes(port: int) -> None:
    """Check that somebody else is still served."""
    async with opened(port) as stream:
        await stream.write(b"hello")
        assert await asyncio.wait_for(stream.read(), SECONDS) == b"hello"


@settings(max_examples=30, deadline=None)
@given(st.lists(sizes, min_size=1, max_size=5))
def test_messages_of_any_size_arrive_in_order(lengths: list[int]) -> None:
    async def run() -> None:
        async with listening() as (_, port), opened(port) as stream:
            sent = [bytes([number]) * length for number, length in enumerate(lengths)]
            writing = asyncio.ensure_future(write_all(stream, sent))
            received = [await asyncio.wait_for(stream.read(), SECONDS) for _ in sent]
            await writing
            assert received == sent
            await stream.done_writing()
            assert await asyncio.wait_for(stream.read(), SECONDS) is grpc.aio.EOF  # type: ignore[attr-defined]
            assert await stream.code() is grpc.StatusCode.OK

    asyncio.run(run())


async def write_all(stream: Any, messages: list[bytes]) -> None:
    for content in messages:
        await stream.write(content)


def test_the_longest_message_passes_and_a_longer_one_does_not() -> None:
    async def run() -> None:
        async with listening() as (_, port), opened(port) as stream:
            writing = asyncio.ensure_future(stream.write(bytes(MAX_MESSAGE)))
            assert len(await asyncio.wait_for(stream.read(), SECONDS)) == MAX_MESSAGE
            await writing
            with contextlib.suppress(StreamEndedError):
                await stream.write(bytes(MAX_MESSAGE + 1))
            with pytest.raises(StreamEndedError) as error:
                await asyncio.wait_for(stream.read(), SECONDS)
            assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

    asyncio.run(run())


def test_a_client_of_grpcio_is_served() -> None:
    async def run() -> None:
        async with listening() as (_, port), grpc.aio.insecure_channel(f"{HOST}:{port}") as channel:
            method: Any = channel.stream_stream(PATH, None, None)
            call = method()
            for length in (1, 100_000):
                await call.write(bytes(length))
                assert await asyncio.wait_for(call.read(), SECONDS) == bytes(length)
            await call.done_writing()
            assert await asyncio.wait_for(call.code(), SECONDS) is grpc.StatusCode.OK

    asyncio.run(run())


@pytest.mark.parametrize("path", ["/test.Echo/Other", "/"])
def test_another_method_is_not_served(path: str) -> None:
    async def run() -> None:
        async with listening() as (_, port), opened(port, path) as stream:
            with pytest.raises(StreamEndedError) as error:
                await asyncio.wait_for(stream.read(), SECONDS)
            assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED

    asyncio.run(run())


async def fail(_context: Any) -> None:
    raise ValueError("secret")


async def abort(context: Any) -> None:
    await context.write(b"first")
    await context.abort(grpc.StatusCode.PERMISSION_DENIED, "späte Absage")


@pytest.mark.parametrize(
    ("handler", "code"),
    [(fail, grpc.StatusCode.INTERNAL), (abort, grpc.StatusCode.PERMISSION_DENIED)],
    ids=["fails", "aborts"],
)
def test_the_client_learns_how_a_handler(
    handler: Callable[[Any], Awaitable[None]], code: grpc.StatusCode
) -> None:
    async def run() -> None:
        async with listening(handler) as (_, port), grpc.aio.insecure_channel(f"{HOST}:{port}") as channel:
            method: Any = channel.stream_stream(PATH, None, None)
            call = method()
            if handler is abort:
                assert await asyncio.wait_for(call.read(), SECONDS) == b"first"
            assert await asyncio.wait_for(call.code(), SECONDS) is code
            assert "secret" not in await call.details()
            if handler is abort:
                assert await call.details() == "späte Absage"

    asyncio.run(run())


def test_a_handler_is_cancelled_when_its_client_goes_away() -> None:
    cancelled = asyncio.Event()

    async def noticing(context: Any) -> None:
        await context.write(b"")
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def run() -> None:
        async with listening(noticing) as (_, port), opened(port) as stream:
            await asyncio.wait_for(stream.read(), SECONDS)
            stream.cancel()
            await asyncio.wait_for(cancelled.wait(), SECONDS)

    asyncio.run(run())


def test_an_old_connection_is_asked_to_leave_and_its_stream_goes_on() -> None:
    async def run() -> None:
        async with listening(max_age_seconds=0.1) as (listener, port), opened(port) as stream:
            left = asyncio.Event()
            stream.on_leaving = left.set
            await asyncio.wait_for(left.wait(), SECONDS)
            await stream.write(b"still here")
            assert await asyncio.wait_for(stream.read(), SECONDS) == b"still here"
            [connection] = listener.connections
            await stream.done_writing()
            await asyncio.wait_for(asyncio.wait([connection.lost]), SECONDS)

    asyncio.run(run())


def test_a_stream_that_does_not_end_in_the_grace_time_is_cut_off() -> None:
    async def run() -> None:
        async with listening(grace_seconds=0.1) as (listener, port), opened(port) as stream:
            await stream.write(b"")
            await asyncio.wait_for(stream.read(), SECONDS)
            listener.leave()
            await asyncio.wait_for(listener.closed(), SECONDS)
            with pytest.raises(StreamEndedError):
                await asyncio.wait_for(stream.read(), SECONDS)

    asyncio.run(run())


# Hostile clients

OPEN = headers(REQUEST)
ATTACKS: dict[str, tuple[ErrorCodes | None, list[bytes]]] = {
    "headers that never end": (
        ErrorCodes.ENHANCE_YOUR_CALM,
        [headers(REQUEST, flags=0), *[frame(CONTINUATION, 0, 1, bytes(1000))] * 20],
    ),
    "empty headers that never end": (
        None,
        [headers(REQUEST, flags=0), *[frame(CONTINUATION, 0, 1)] * 20_000],
    ),
    "other frames amid headers": (ErrorCodes.PROTOCOL_ERROR, [headers(REQUEST, flags=0), frame(DATA, 0, 1)]),
    "many long headers": (
        ErrorCodes.ENHANCE_YOUR_CALM,
        [headers(REQUEST | {f"x-{number}": "y" * 1000 for number in range(12)})],
    ),
    "rapid resets": (
        ErrorCodes.ENHANCE_YOUR_CALM,
        [headers(REQUEST, stream) + frame(RST, 0, stream, bytes(4)) for stream in range(1, 4000, 2)],
    ),
    "many streams": (None, [headers(REQUEST, stream) for stream in range(1, 100, 2)]),
    "pings": (ErrorCodes.ENHANCE_YOUR_CALM, [frame(PING, 0, 0, bytes(8))] * 20_000),
    "settings": (ErrorCodes.ENHANCE_YOUR_CALM, [frame(SETTINGS, 0, 0, bytes((0, 9, 0, 0, 0, 0)))] * 20_000),
    "priorities": (ErrorCodes.ENHANCE_YOUR_CALM, [frame(PRIORITY, 0, 1, bytes((0, 0, 0, 0, 1)))] * 20_000),
    "frames of unknown kinds": (ErrorCodes.ENHANCE_YOUR_CALM, [frame(99, 0, 0, b"?")] * 20_000),
    "window updates": (
        ErrorCodes.ENHANCE_YOUR_CALM,
        [OPEN, *[frame(WINDOW, 0, 1, bytes((0, 0, 0, 1)))] * 20_000],
    ),
    "a window beyond its limit": (
        None,
        [OPEN, *[frame(WINDOW, 0, 0, b"\x7f\xff\xff\xff")] * 2],
    ),
    "a window update of nothing": (ErrorCodes.PROTOCOL_ERROR, [OPEN, frame(WINDOW, 0, 0, bytes(4))]),
    "empty data": (ErrorCodes.ENHANCE_YOUR_CALM, [OPEN, *[frame(DATA, 0, 1)] * 20_000]),
    "more data than the window": (
        ErrorCodes.FLOW_CONTROL_ERROR,
        [OPEN, *[frame(DATA, 0, 1, message(bytes(16_000)))] * (4 * STREAM_WINDOW_BYTES // 16_000)],
    ),
    "data on a stream that was not opened": (ErrorCodes.PROTOCOL_ERROR, [frame(DATA, 0, 1, message(b""))]),
    "data on a stream of the server": (ErrorCodes.PROTOCOL_ERROR, [OPEN, frame(DATA, 0, 2, message(b""))]),
    "data after the end": (
        ErrorCodes.STREAM_CLOSED,
        [OPEN, frame(DATA, END_STREAM, 1, message(b"")), frame(DATA, 0, 1, message(b""))],
    ),
    "more padding than data": (ErrorCodes.PROTOCOL_ERROR, [OPEN, frame(DATA, PADDED, 1, b"\x09abc")]),
    "a frame that is too long": (ErrorCodes.FRAME_SIZE_ERROR, [OPEN, frame(DATA, 0, 1, bytes(20_000))]),
    "a pushed stream": (ErrorCodes.PROTOCOL_ERROR, [frame(PUSH, END_HEADERS, 1, bytes((0, 0, 0, 2)))]),
    "half a goaway": (ErrorCodes.PROTOCOL_ERROR, [frame(GOAWAY, 0, 0, bytes(4))]),
    "HTTP/1.1": (None, [b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"]),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_connection_is_ended_that_sends(attack: str, caplog: pytest.LogCaptureFixture) -> None:
    code, frames = ATTACKS[attack]
    started = 0

    async def hanging(_context: Any) -> None:
        nonlocal started
        started += 1
        await asyncio.Event().wait()

    async def run() -> None:
        async with listening(hanging) as (listener, port), hostile_client(port) as peer:
            peer.send(*frames)
            # A client that goes on sending is reset before it reads why.
            assert await peer.error() in {-1, code, *([] if code else ErrorCodes)}
            await until(SECONDS, lambda: _async(not listener.connections))
        assert started <= 20
        [logged] = caplog.records
        assert code is None or logged.reason == code.name  # type: ignore[attr-defined]  # an extra field

    asyncio.run(run())


async def _async(value: bool) -> bool:  # noqa: FBT001 - the value of a coroutine
    return value


def fields_of(block: bytes) -> dict[Any, Any]:
    """The headers in a block."""
    decoded: Any = hpack.Decoder().decode(block)
    return dict(decoded)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (message(b"x", flag=1), grpc.StatusCode.INTERNAL),
        (message(b"x", flag=77), grpc.StatusCode.INTERNAL),
        (b"\0\xff\xff\xff\xff", grpc.StatusCode.RESOURCE_EXHAUSTED),
        (b"\0\0\0\0\x09half", None),
    ],
    ids=["a compressed message", "a flag that nobody knows", "a long message", "half a message"],
)
def test_only_the_stream_is_ended_on_which_comes(data: bytes, code: grpc.StatusCode | None) -> None:
    async def run() -> None:
        async with listening() as (_, port), hostile_client(port) as peer:
            peer.send(OPEN, frame(DATA, 0 if code else END_STREAM, 1, data))
            flags, stream, block = await peer.until(HEADERS)
            assert flags & END_STREAM
            assert stream == 1
            expected = (code or grpc.StatusCode.INTERNAL).value[0]
            assert fields_of(block)["grpc-status"] == str(expected)
            peer.send(headers(REQUEST, 3), frame(DATA, 0, 3, message(b"next")))
            assert (await peer.until(DATA))[2] == message(b"next")

    asyncio.run(run())


def test_padded_and_divided_data_is_put_together() -> None:
    async def run() -> None:
        async with listening() as (_, port), hostile_client(port) as peer:
            whole = message(b"put together")
            peer.send(OPEN, frame(DATA, PADDED, 1, b"\x02" + whole[:3] + b"\0\0"))
            for byte in whole[3:]:
                peer.send(frame(DATA, 0, 1, bytes([byte])))
            assert (await peer.until(DATA))[2] == whole

    asyncio.run(run())


def test_frames_in_pieces_of_any_size_are_put_together() -> None:
    async def run() -> None:
        async with listening() as (_, port):
            reader, writer = await asyncio.open_connection(HOST, port)
            for byte in PREFACE + frame(SETTINGS) + OPEN + frame(DATA, 0, 1, message(b"slow")):
                writer.write(bytes([byte]))
                await asyncio.sleep(0)
            assert (await Peer(reader, writer).until(DATA))[2] == message(b"slow")
            writer.close()

    asyncio.run(run())


def test_a_client_that_reads_nothing_fills_no_buffer() -> None:
    written = 0

    async def talkative(context: Any) -> None:
        nonlocal written
        while True:
            await context.write(bytes(10_000))
            written += 10_000

    async def run() -> None:
        async with listening(talkative) as (listener, port), hostile_client(port) as peer:
            peer.send(frame(WINDOW, 0, 0, (2**30).to_bytes(4, "big")), OPEN)
            peer.send(frame(WINDOW, 0, 1, (2**30).to_bytes(4, "big")))
            before = -1
            while before != written:  # until nothing more is written
                before = written
                await asyncio.sleep(0.2)
            [connection] = listener.connections
            assert connection.transport.get_write_buffer_size() < 512 * 1024
            await echoes_elsewhere()

    asyncio.run(run())


async def echoes_elsewhere() -> None:
    async with listening() as (_, port):
        await echoes(port)


def test_a_client_that_gives_no_window_gets_no_more_data() -> None:
    async def run() -> None:
        async with listening() as (_, port), hostile_client(port) as peer:
            peer.send(OPEN)
            for _ in range(10):
                peer.send(frame(DATA, 0, 1, message(bytes(9_000))))
            received = 0
            while received < 65_535:
                received += len((await peer.until(DATA))[2])
            assert received == 65_535
            peer.send(frame(WINDOW, 0, 1, (100_000).to_bytes(4, "big")))
            peer.send(frame(WINDOW, 0, 0, (100_000).to_bytes(4, "big")))
            while received < 10 * 9_005:
                received += len((await peer.until(DATA))[2])
            assert received == 10 * 9_005

    asyncio.run(run())


def test_messages_that_are_not_read_use_up_the_window_and_no_more() -> None:
    async def run() -> None:
        release = asyncio.Event()

        async def late(context: Any) -> None:
            await release.wait()
            await echo(context)

        async with listening(late) as (_, port), opened(port) as stream:
            writing = asyncio.ensure_future(write_all(stream, [bytes(100_000)] * 40))
            done, _ = await asyncio.wait([writing], timeout=0.5)
            assert not done
            release.set()
            for _ in range(40):
                assert len(await asyncio.wait_for(stream.read(), SECONDS)) == 100_000
            await writing

    asyncio.run(run())


def test_messages_of_nothing_that_are_not_read_use_up_the_window_too() -> None:
    async def idle(_context: Any) -> None:
        await asyncio.Event().wait()

    async def run() -> None:
        async with listening(idle) as (_, port), hostile_client(port) as peer:
            peer.send(OPEN)
            for _ in range(STREAM_WINDOW_BYTES // 2**14):
                peer.send(frame(DATA, 0, 1, message(b"") * (2**14 // len(message(b"")))))
            peer.send(frame(PING, 0, 0, bytes(8)))
            while (received := await peer.next())[0] != PING:
                assert received[0] != WINDOW or not received[2], received

    asyncio.run(run())


@pytest.mark.parametrize("said", [b"", PREFACE, PREFACE + frame(SETTINGS)], ids=["nothing", "half", "all"])
def test_a_client_that_falls_silent_is_given_up(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_listeners, "_KEEPALIVE", Keepalive(0.2, 0.2))

    async def run() -> None:
        async with listening() as (_, port):
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(said)
            assert await Peer(reader, writer).error() == -1
            writer.close()

    asyncio.run(run())


def test_a_client_that_answers_pings_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_listeners, "_KEEPALIVE", Keepalive(0.1, 0.2))

    async def run() -> None:
        async with listening() as (_, port), hostile_client(port) as peer:
            for _ in range(5):
                flags, _, payload = await peer.until(PING)
                assert not flags & ACK
                peer.send(frame(PING, ACK, 0, payload))

    asyncio.run(run())


def test_connections_beyond_the_limit_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_listeners, "_MAX_CONNECTIONS", 2)

    async def run() -> None:
        async with listening() as (_, port), opened(port), opened(port), hostile_client(port) as third:
            assert await third.error() == -1

    asyncio.run(run())


SESSION = b"".join(
    [
        frame(SETTINGS, 0, 0, bytes((0, 3, 0, 0, 0, 100, 0, 4, 0, 1, 0, 0))),
        frame(SETTINGS, ACK),
        OPEN,
        frame(DATA, 0, 1, message(b"one")),
        frame(PING, 0, 0, bytes(8)),
        frame(WINDOW, 0, 1, bytes((0, 0, 1, 0))),
        headers(REQUEST, 3),
        frame(DATA, PADDED, 3, b"\x02" + message(b"two") + b"\0\0"),
        frame(RST, 0, 3, bytes((0, 0, 0, 8))),
        frame(DATA, END_STREAM, 1, message(b"three")),
        frame(GOAWAY, 0, 0, bytes(8)),
    ]
)
changes = st.lists(
    st.tuples(st.integers(0, len(SESSION) - 1), st.integers(0, 3), st.binary(max_size=9)),
    min_size=1,
    max_size=6,
)


def changed(session: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    """Replace some bytes by others, fewer or more."""
    for position, length, replacement in edits:
        session = session[:position] + replacement + session[position + length :]
    return session


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.binary(max_size=400), changes.map(lambda edits: changed(SESSION, edits))))
def test_no_bytes_of_a_client_harm_others(sent: bytes) -> None:
    problems: list[dict[str, Any]] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))
        async with listening() as (_, port):
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(PREFACE + sent)
            writer.write_eof()
            await asyncio.wait_for(reader.read(), SECONDS)
            writer.close()
            await echoes(port)

    asyncio.run(run())
    assert problems == []
