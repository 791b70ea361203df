from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import time

import pytest

from pratique_frontdoor.http import servers
from pratique_frontdoor.settings import FrontDoorSettings
from support.front_doors.engines import AllowingEngine, SlowEngine
from support.front_doors.reviews import review_body, review_body_of
from support.front_doors.running import JSON_TYPE, PATIENCE_SECONDS, Door, exchange, open_door, read_all
from support.waiting import within

MALFORMED = "not an HTTP/1.1 request that can be answered: "
BODY = review_body()
POST = b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(BODY)


def talk(door: Door, request: bytes) -> bytes:
    """Send this, and read until the front door closes the connection."""
    with door.socket() as connection:
        connection.sendall(request)
        return read_all(connection)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /%s HTTP/1.1\r\n\r\n" % "é".encode(),
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n",
        POST + LENGTH + b"Transfer-Encoding: chunked\r\n\r\n" + BODY,
        POST + LENGTH + b"Content-Length: 1\r\n\r\n" + BODY,
        POST + b"Content-Length: -1\r\n\r\n",
        POST + b"Content-Length: ten\r\n\r\n",
        POST + b"Content-Length: 99999999999999999999999\r\n\r\n",
        POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n",
        POST + LENGTH + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + BODY,
        b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"CONNECT example.com:443 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X-A: b\r\n" * 101 + b"\r\n",
        b"GET / HTTP/1.1\r\nX-A: " + b"b" * 40_000,
        b"GET /" + b"b" * 40_000,
    ],
)
def test_a_malformed_request_gets_400_and_the_connection_is_closed(
    allowing: Door, request_bytes: bytes
) -> None:
    head, _, body = talk(allowing, request_bytes).partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    assert lines[0] == b"http/1.1 400 bad request"
    assert {b"connection: close", b"content-type: application/json"} < set(lines)
    status = json.loads(body)
    assert (status["kind"], status["code"]) == ("Status", 400)
    assert status["message"].startswith(MALFORMED)


def test_a_head_of_a_hundred_fields_is_read(allowing: Door) -> None:
    answer = talk(
        allowing, b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + b"X-A: b\r\n" * 98 + b"\r\n"
    )
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")


NEVER = 3600.0
"""Seconds that no test waits: a limit that a case does not test."""
PATIENT = FrontDoorSettings(
    head_seconds=NEVER, body_seconds=NEVER, body_grace_seconds=NEVER, min_body_bytes_per_second=1
)
BEGUN = POST + b"Content-Length: 1000\r\n\r\n"
SLOW_ENDS = [
    (b"", {"head_seconds": 0.1}),
    (b"POST /val", {"head_seconds": 0.1}),
    (POST + b"X-Slow: ", {"head_seconds": 0.1}),
    # Answered already, with 413; the body is still to come.
    (POST + b"Content-Length: 99999999\r\n\r\n{", {"head_seconds": 0.1}),
    (BEGUN, {"body_seconds": 0.1}),
    (BEGUN, {"body_grace_seconds": 0.1, "min_body_bytes_per_second": 1_000_000}),
    (
        POST + b"Transfer-Encoding: chunked\r\n\r\n5000\r\n",
        {"body_grace_seconds": 0.1, "min_body_bytes_per_second": 1_000_000},
    ),
]
"""How a request begins that keeps the front door waiting, and the one limit that ends it."""


@pytest.fixture(autouse=True)
def often_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let front doors of this process look for overdue connections ten times a second, not once."""
    monkeypatch.setattr(servers, "_TICKS_PER_SECOND", 1)


@pytest.mark.parametrize(("beginning", "limit"), SLOW_ENDS)
def test_a_client_that_stops_sending_is_disconnected(beginning: bytes, limit: dict[str, float]) -> None:
    settings = dataclasses.replace(PATIENT, **limit)  # type: ignore[arg-type] # limits are numbers
    with open_door(AllowingEngine(), settings) as door, door.socket() as connection:
        connection.sendall(beginning)
        while connection.recv(65536):  # which fails where the front door does not close in time
            pass


@pytest.mark.parametrize(("beginning", "limit"), [case for case in SLOW_ENDS if case[0]])
def test_a_client_that_trickles_bytes_is_disconnected(beginning: bytes, limit: dict[str, float]) -> None:
    settings = dataclasses.replace(PATIENT, **limit)  # type: ignore[arg-type] # limits are numbers
    with open_door(AllowingEngine(), settings) as door, door.socket() as connection:
        connection.settimeout(0.05)
        connection.sendall(beginning)
        with contextlib.suppress(ConnectionError):
            assert within(PATIENCE_SECONDS, lambda: _closed_after_a_byte(connection))


def _closed_after_a_byte(connection: socket.socket) -> bool:
    connection.sendall(b"x")
    return _closed(connection)


@pytest.mark.parametrize(
    "limit",
    [
        {"min_body_bytes_per_second": 1_000_000_000},  # by which it would be late, were it not for the grace
        {"body_grace_seconds": 0.1},  # after which it comes fast enough
    ],
)
def test_a_body_exactly_at_every_limit_is_read(limit: dict[str, float]) -> None:
    settings = dataclasses.replace(PATIENT, **limit)  # type: ignore[arg-type] # limits are numbers
    with open_door(AllowingEngine(), settings) as door, door.socket() as connection:
        connection.sendall(POST + LENGTH + b"Connection: close\r\n\r\n" + BODY[:100])
        time.sleep(0.4)  # longer than the tenth of a second until it is looked at
        connection.sendall(BODY[100:])
        assert read_all(connection).startswith(b"HTTP/1.1 200 OK\r\n")


def _closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False


def test_the_timeout_of_heads_does_not_close_idle_connections() -> None:
    settings = FrontDoorSettings(head_seconds=0.1)
    with open_door(AllowingEngine(), settings) as door, contextlib.closing(door.connect()) as connection:
        first = exchange(connection, "POST", "/validate", BODY, JSON_TYPE)
        time.sleep(0.4)  # longer than it takes to be found overdue: 0.1 s, and as long until it is looked for
        second = exchange(connection, "POST", "/validate", BODY, JSON_TYPE)
    assert (first.code, second.code) == (200, 200)


def test_a_slow_review_does_not_count_as_a_slow_client() -> None:
    with open_door(SlowEngine(seconds=0.4), FrontDoorSettings(head_seconds=0.1)) as door:
        assert door.post("/validate").code == 200


def test_a_body_sent_fast_enough_is_read_to_its_end() -> None:
    settings = FrontDoorSettings(body_grace_seconds=0.1, min_body_bytes_per_second=100)
    body = review_body_of(100_000)
    with open_door(AllowingEngine(), settings) as door, door.socket() as connection:
        connection.sendall(
            POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:50_000]
        )
        time.sleep(0.4)  # longer than the grace, and the tenth of a second until that is looked at
        connection.sendall(body[50_000:])
        assert read_all(connection).startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_body_that_waits_for_an_earlier_answer_does_not_time_out() -> None:
    with (
        open_door(
            SlowEngine(seconds=1.0), FrontDoorSettings(head_seconds=0.1, body_grace_seconds=0.9)
        ) as door,
        door.socket() as connection,
    ):
        last = LENGTH + b"Connection: close\r\n\r\n"
        connection.sendall(POST + LENGTH + b"\r\n" + BODY + POST + last + BODY[:1])
        time.sleep(0.5)  # longer than a head may take, and the tenth of a second until that is looked for
        connection.sendall(BODY[1:])
        assert read_all(connection).count(b"HTTP/1.1 200 OK\r\n") == 2


def test_pipelined_requests_are_answered_in_order(allowing: Door) -> None:
    uids = [f"uid-{number}" for number in range(5)]
    requests = [
        POST
        + b"Content-Length: %d\r\n%s\r\n%s" % (len(body), b"Connection: close\r\n" * (uid == uids[-1]), body)
        for uid, body in ((uid, review_body(uid=uid)) for uid in uids)
    ]
    answer = talk(allowing, b"".join(requests))
    assert [line for line in uids if line.encode() in answer] == uids
    assert [answer.index(uid.encode()) for uid in uids] == sorted(answer.index(uid.encode()) for uid in uids)


def test_expect_100_continue_is_answered(allowing: Door) -> None:
    with allowing.socket() as connection:
        connection.sendall(POST + LENGTH + b"Expect: 100-continue\r\nConnection: close\r\n\r\n")
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(BODY)
        assert read_all(connection).startswith(b"HTTP/1.1 200 OK\r\n")


def test_expect_100_continue_for_a_body_too_large_is_refused(allowing: Door) -> None:
    with allowing.socket() as connection:
        connection.sendall(POST + b"Expect: 100-continue\r\nContent-Length: 7340033\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_http_1_0_is_answered_and_the_connection_closed(allowing: Door) -> None:
    answer = talk(allowing, b"GET /livez HTTP/1.0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\nok")


def test_responses_have_a_date_and_do_not_name_the_server(allowing: Door) -> None:
    headers = allowing.get("/livez").headers
    assert "Date" in headers
    assert "Server" not in headers


def test_a_response_is_written_in_one_piece(allowing: Door) -> None:
    with allowing.socket() as connection:
        for _ in range(3):
            connection.sendall(POST + b"Content-Length: %d\r\n\r\n%s" % (len(BODY), BODY))
            head, _, body = connection.recv(65536).partition(b"\r\n\r\n")
            assert b"content-length: %d" % len(body) in head


def test_a_response_without_a_body_is_written(allowing: Door) -> None:
    with allowing.socket() as connection:
        connection.sendall(b"HEAD /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")
