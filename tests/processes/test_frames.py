"""Frames between a service and its child processes."""

from __future__ import annotations

import asyncio
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.processes.frames import (
    FrameKind,
    ProcessFrame,
    encode_frame,
    read_frame,
    receive_body,
    send_frame,
)

FRAMES = st.builds(
    ProcessFrame, st.sampled_from(FrameKind), st.integers(0, 2**32 - 1), st.binary(max_size=100)
)


def read_all(raw: bytes, count: int) -> list[ProcessFrame]:
    async def read() -> list[ProcessFrame]:
        reader = asyncio.StreamReader()
        reader.feed_data(raw)
        reader.feed_eof()
        return [await read_frame(reader) for _ in range(count)]

    return asyncio.run(read())


@given(st.lists(FRAMES, max_size=5))
def test_a_stream_of_frames_is_read_back(frames: list[ProcessFrame]) -> None:
    assert read_all(b"".join(map(encode_frame, frames)), len(frames)) == frames


@pytest.mark.parametrize("raw", [b"", b"\0\0", encode_frame(ProcessFrame(FrameKind.CALL, 1, b"body"))[:-1]])
def test_a_truncated_frame_is_the_end_of_the_stream(raw: bytes) -> None:
    with pytest.raises(EOFError):
        read_all(raw, 1)


def test_an_unknown_kind_is_no_frame() -> None:
    with pytest.raises(ValueError, match="99 is not a valid FrameKind"):
        read_all(b"\0\0\0\0\0\0\0\0\x63", 1)


def test_a_body_sent_in_pieces_is_received_whole() -> None:
    sender, receiver = socket.socketpair()
    with sender, receiver:
        send_frame(sender, FrameKind.TEXT, [b"in ", b"", b"pieces"])
        assert receive_body(receiver, FrameKind.TEXT) == b"in pieces"


def test_blocking_and_streamed_frames_are_the_same() -> None:
    sender, receiver = socket.socketpair()
    with sender, receiver:
        send_frame(sender, FrameKind.TEXT, [b"body"])
        assert receiver.recv(100) == encode_frame(ProcessFrame(FrameKind.TEXT, body=b"body"))


def test_a_frame_of_another_kind_breaks_the_connection() -> None:
    sender, receiver = socket.socketpair()
    with sender, receiver:
        send_frame(sender, FrameKind.TEXT, [b"body"])
        with pytest.raises(ConnectionError, match="expected a frame of kind 11, got 10"):
            receive_body(receiver, FrameKind.TEXT_RESULT)


def test_a_closed_connection_is_the_end_of_the_frames() -> None:
    sender, receiver = socket.socketpair()
    with receiver:
        sender.close()
        with pytest.raises(EOFError):
            receive_body(receiver, FrameKind.TEXT)
