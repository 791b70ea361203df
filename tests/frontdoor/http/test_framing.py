"""Where requests begin and end, and how the front door handles ambiguous ones."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique_frontdoor.settings import FrontDoorSettings
from support.front_doors.engines import AllowingEngine, SlowEngine
from support.front_doors.reviews import review_body
from support.front_doors.running import Door, open_door, read_all

BODY = review_body()
TYPE = b"Content-Type: application/json\r\n"
POST = b"POST /validate HTTP/1.1\r\nHost: x\r\n" + TYPE
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
GET = b"GET /livez HTTP/1.1\r\n"
HEAD_BYTES = 32_768
LAST = b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
"""Pipelined after another request, it is answered if the connection is still open, and ends it."""
CLOSED, OPEN = True, False


def codes(said: bytes) -> list[int]:
    """The codes of the answers in it."""
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3}) ", said)]


def sent(door: Door, packets: Iterable[bytes]) -> bytes:
    """Send these, and read until the front door closes the connection."""
    with door.socket() as connection:
        with contextlib.suppress(ConnectionError):
            for packet in packets:
                connection.sendall(packet)
        return read_all(connection)


@pytest.mark.parametrize(
    ("request_bytes", "code", "closed"),
    [
        # RFC 9112, section 3.2 is about Host
        (GET + b"\r\n", 400, CLOSED),
        (GET + b"Host: x\r\nHost: x\r\n\r\n", 400, CLOSED),
        (GET + b"Host: x\r\nhOST: y\r\n\r\n", 400, CLOSED),
        (GET + b"Host: a b\r\n\r\n", 400, CLOSED),
        (GET + b"Host: x/y\r\n\r\n", 400, CLOSED),
        (GET + b"Host: x, y@z\r\n\r\n", 400, CLOSED),
        (GET + b"Host:\r\n\r\n", 200, OPEN),
        (GET + b"Host: [::1]:8080\r\n\r\n", 200, OPEN),
        # section 2.3 is about versions
        (b"GET /livez\r\n\r\n", 400, CLOSED),
        (b"GET /livez HTTP/0.9\r\nHost: x\r\n\r\n", 400, CLOSED),
        (b"GET /livez HTTP/1.2\r\nHost: x\r\n\r\n", 400, CLOSED),
        (b"GET /livez HTTP/2.0\r\nHost: x\r\n\r\n", 400, CLOSED),
        (b"GET /livez HTTP/1.0\r\n\r\n", 200, CLOSED),
        (b"GET /livez HTTP/1.0\r\nHost: x\r\nHost: x\r\n\r\n", 400, CLOSED),
        (b"POST /validate HTTP/1.0\r\n" + TYPE + CHUNKED + b"\r\n" + CHUNKS, 400, CLOSED),
        # sections 2.2, 5.1 and 5.2 are about lines
        (b"\r\n" + GET + b"Host: x\r\n\r\n", 200, OPEN),
        (b"GET /livez HTTP/1.1\nHost: x\n\n", 400, CLOSED),
        (GET + b"Host: x\n\r\n", 400, CLOSED),
        (GET + b"Host: x\r\n\n", 400, CLOSED),
        (GET + b"Host: x\rX: y\r\n\r\n", 400, CLOSED),
        (GET + b"Host: x\r\nX: a\r\n b\r\n\r\n", 400, CLOSED),
        (GET + b"Host: x\r\n X: a\r\n\r\n", 400, CLOSED),
        (GET + b" Host: x\r\n\r\n", 400, CLOSED),
        (GET + b"Host : x\r\n\r\n", 400, CLOSED),
        (GET + b"Host: x\r\nContent-Length : 3\r\n\r\nabc", 400, CLOSED),
        (GET + b"Host: x\r\n: a\r\n\r\n", 400, CLOSED),
        (b"GET  /livez HTTP/1.1\r\nHost: x\r\n\r\n", 200, OPEN),  # which section 3 lets a server do
        (b" GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", 400, CLOSED),
        (b"GE\0T /livez HTTP/1.1\r\nHost: x\r\n\r\n", 400, CLOSED),
        # section 3.2 is about targets
        (b"GET http://x/livez HTTP/1.1\r\nHost: x\r\n\r\n", 200, OPEN),
        (b"GET http://other/livez HTTP/1.1\r\nHost: x\r\n\r\n", 200, OPEN),
        (b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 404, OPEN),
        (b"GET livez HTTP/1.1\r\nHost: x\r\n\r\n", 400, CLOSED),
        (b"GET http://x HTTP/1.1\r\nHost: x\r\n\r\n", 400, CLOSED),
        (b"GET http:///livez HTTP/1.1\r\nHost: x\r\n\r\n", 400, CLOSED),
        (b"GET http://x:99999/livez HTTP/1.1\r\nHost: x\r\n\r\n", 400, CLOSED),
        (POST.replace(b"/validate", b"http:///validate") + LENGTH + b"\r\n" + BODY, 400, CLOSED),
        (POST.replace(b"/validate", b"http:///validate") + CHUNKED + b"\r\n" + CHUNKS, 400, CLOSED),
        (b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n", 400, CLOSED),
        # sections 6.2 and 6.3 are about lengths
        (POST + LENGTH + b"\r\n" + BODY, 200, OPEN),
        (POST + LENGTH + CHUNKED + b"\r\n" + CHUNKS, 400, CLOSED),
        (POST + CHUNKED + LENGTH + b"\r\n" + CHUNKS, 400, CLOSED),
        (POST + LENGTH + LENGTH + b"\r\n" + BODY, 400, CLOSED),
        (POST + LENGTH + b"Content-Length: 3\r\n\r\n" + BODY, 400, CLOSED),
        (POST + b"Content-Length: 3, 3\r\n\r\nabc", 400, CLOSED),
        (POST + b"Content-Length: +3\r\n\r\nabc", 400, CLOSED),
        (POST + b"Content-Length: -3\r\n\r\nabc", 400, CLOSED),
        (POST + b"Content-Length: 0x3\r\n\r\nabc", 400, CLOSED),
        (POST + b"Content-Length: 3 3\r\n\r\nabc", 400, CLOSED),
        (POST + b"Content-Length: \r\n\r\n", 400, CLOSED),
        # sections 6.1 and 7 are about transfer codings
        (POST + CHUNKED + b"\r\n" + CHUNKS, 200, OPEN),
        (POST + b"Transfer-Encoding: CHUNKED\r\n\r\n" + CHUNKS, 200, OPEN),
        (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + CHUNKS, 400, CLOSED),
        (POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n" + CHUNKS, 400, CLOSED),
        (POST + b"Transfer-Encoding: identity\r\n\r\n" + BODY, 400, CLOSED),
        (POST + b"Transfer-Encoding: xchunked\r\n\r\n" + CHUNKS, 400, CLOSED),
        (POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + CHUNKS, 400, CLOSED),
        (POST + CHUNKED + CHUNKED + b"\r\n" + CHUNKS, 400, CLOSED),
        # section 7.1 is about chunks
        (POST + CHUNKED + b"\r\n%x;name=value\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY), 200, OPEN),
        (POST + CHUNKED + b"\r\n%016x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY), 200, OPEN),
        (POST + CHUNKED + b"\r\n-1\r\n%s\r\n0\r\n\r\n" % BODY, 400, CLOSED),
        (POST + CHUNKED + b"\r\n+1\r\nx\r\n0\r\n\r\n", 400, CLOSED),
        (POST + CHUNKED + b"\r\n0x1\r\nx\r\n0\r\n\r\n", 400, CLOSED),
        (POST + CHUNKED + b"\r\n1 \r\nx\r\n0\r\n\r\n", 400, CLOSED),
        (POST + CHUNKED + b"\r\n 1\r\nx\r\n0\r\n\r\n", 400, CLOSED),
        (POST + CHUNKED + b"\r\n\r\nx\r\n0\r\n\r\n", 400, CLOSED),
        (POST + CHUNKED + b"\r\n1\nx\r\n0\r\n\r\n", 400, CLOSED),
        (POST + CHUNKED + b"\r\n1;a\nx\r\n0\r\n\r\n", 400, CLOSED),
        (POST + CHUNKED + b"\r\n1\r\nxy\r\n0\r\n\r\n", 400, CLOSED),
        (POST + CHUNKED + b"\r\n1\r\nx\n0\r\n\r\n", 400, CLOSED),
        (POST + CHUNKED + b"\r\nfffffffffffffffff\r\nx", 400, CLOSED),
        (POST + CHUNKED + b"\r\n00000000000000001\r\nx\r\n0\r\n\r\n", 400, CLOSED),
        (POST + CHUNKED + b"\r\n1;%s\r\nx\r\n0\r\n\r\n" % (b"a" * 1024), 400, CLOSED),
        (POST + CHUNKED + b"\r\n" + b"1\r\n \r\n" * 20_000, 400, CLOSED),
        # section 7.1.2 is about trailers
        (POST + CHUNKED + b"\r\n" + CHUNKS[:-2] + b"X: y\r\n\r\n", 400, CLOSED),
        (POST + CHUNKED + b"\r\n" + CHUNKS[:-2] + b"X: y", 400, CLOSED),
        (POST + CHUNKED + b"\r\n" + CHUNKS[:-2] + b"\n", 400, CLOSED),
        (POST + CHUNKED + b"\r\n" + CHUNKS[:-2] + b"\rX", 400, CLOSED),
        # asking first: RFC 9110, 10.1.1; what else is expected need not be refused
        (POST + LENGTH + b"Expect: 100-continue\r\n\r\n" + BODY, 200, OPEN),
        (POST + LENGTH + b"Expect: 200-ok\r\n\r\n" + BODY, 200, OPEN),
    ],
)
def test_requests_are_accepted_or_refused_as_rfc_9112_requires(
    allowing: Door, *, request_bytes: bytes, code: int, closed: bool
) -> None:
    answers = [item for item in codes(sent(allowing, [request_bytes, LAST])) if item != 100]
    assert answers == ([code] if closed else [code, 200])


def test_a_target_that_cannot_be_read_is_refused_behind_an_answered_request_too(allowing: Door) -> None:
    refused = POST.replace(b"/validate", b"http:///validate") + LENGTH + b"\r\n" + BODY
    assert codes(sent(allowing, [GET + b"Host: x\r\n\r\n" + refused, LAST])) == [200, 400]


def test_a_trailer_never_becomes_a_header(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("let-me-in\n")
    trailer = b"Authorization: Bearer let-me-in\r\n"
    engine = AllowingEngine()
    with open_door(engine, FrontDoorSettings(token_file=tokens)) as door:
        as_trailer = sent(door, [POST + CHUNKED + b"\r\n" + CHUNKS[:-2] + trailer + b"\r\n"])
        assert engine.asked == []
        as_header = sent(door, [POST + trailer + CHUNKED + b"Connection: close\r\n\r\n" + CHUNKS])
    assert 200 not in codes(as_trailer)
    assert codes(as_header) == [200]


def head_of(size: int, padding: bytes) -> bytes:
    """A request without a body, and with exactly that many bytes."""
    head = GET + b"Host: x\r\nConnection: close\r\n" + (b"X: " if padding != b"\r\n" else b"")
    end = b"\r\n\r\n" if padding != b"\r\n" else b"\r\n"
    filling = padding * (size // len(padding))
    room = size - len(head) - len(end)
    return filling[:room] + head + end if padding == b"\r\n" else head + filling[:room] + end


@st.composite
def _cuts(draw: st.DrawFn) -> list[int]:
    return sorted(draw(st.lists(st.integers(1, HEAD_BYTES + 1), max_size=4)))


@pytest.fixture(name="door", scope="module")
def _door() -> Iterator[Door]:
    with open_door(AllowingEngine()) as door:
        yield door


@given(excess=st.integers(-2, 2), padding=st.sampled_from([b"a", b" ", b"\t", b"a: b, "]), cuts=_cuts())
def test_the_limit_on_heads_does_not_depend_on_packet_boundaries(
    door: Door, excess: int, padding: bytes, cuts: list[int]
) -> None:
    head = head_of(HEAD_BYTES + excess, padding)
    assert len(head) == HEAD_BYTES + excess
    packets = [head[start:end] for start, end in zip([0, *cuts], [*cuts, len(head)], strict=True)]
    assert codes(sent(door, filter(None, packets))) == ([200] if excess <= 0 else [400])


TALK = b"".join(
    (
        b"\r\n" + POST + LENGTH + b"\r\n" + BODY,
        POST + CHUNKED + b"\r\n10;a=b\r\n" + BODY[:16] + b"\r\n" + b"%x\r\n" % len(BODY[16:]),
        BODY[16:] + b"\r\n0\r\n\r\n",
        GET + b"Host: x\r\n\r\n" + LAST,
    )
)


@given(cuts=st.lists(st.integers(1, len(TALK) - 1), max_size=12))
def test_requests_do_not_depend_on_packet_boundaries(door: Door, cuts: list[int]) -> None:
    ends = sorted(cuts)
    packets = [TALK[start:end] for start, end in zip([0, *ends], [*ends, len(TALK)], strict=True)]
    assert codes(sent(door, filter(None, packets))) == [200, 200, 200, 200]


def test_requests_can_arrive_byte_by_byte(door: Door) -> None:
    assert codes(sent(door, (TALK[at : at + 1] for at in range(len(TALK))))) == [200, 200, 200, 200]


@pytest.mark.parametrize("size", [33_000, 40_000, 60_000])
def test_a_head_in_one_packet_meets_the_same_limit(door: Door, size: int) -> None:
    assert codes(sent(door, [head_of(size, b"a")])) == [400]


def test_a_pipelined_request_is_read_after_the_previous_answer() -> None:
    engine = SlowEngine(seconds=0.2)
    request = POST + LENGTH + b"\r\n" + BODY
    with open_door(engine) as door:
        said = sent(door, [request, request + b"no request\r\n\r\n"])
    # The third is malformed, and those before it are answered all the same.
    assert codes(said) == [200, 200, 400]
