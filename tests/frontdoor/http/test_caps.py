"""Limits on unauthenticated clients, addresses and callers, and the priority of reviews."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pratique.cluster.store import ANY_NAMESPACE
from pratique_frontdoor.http.codecs import decode_review
from pratique_frontdoor.http.connections import UnauthenticatedConnections, network_address
from pratique_frontdoor.http.messages import MIN_REVIEW_BYTES, PriorityLevel, priority_of
from pratique_frontdoor.settings import FrontDoorSettings
from support.front_doors.engines import AllowingEngine, HangingEngine
from support.front_doors.reviews import review_body
from support.front_doors.running import (
    JSON_TYPE,
    PATIENCE_SECONDS,
    Door,
    exchange,
    open_door,
    open_door_process,
    read_all,
)
from support.waiting import within

POST = b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
LEASES = {"group": "coordination.k8s.io", "version": "v1", "resource": "leases"}
NODES = {"group": "", "version": "v1", "resource": "nodes"}
NODE = {"username": "system:node:n1", "groups": ["system:nodes"]}
MEBIBYTE = 1024 * 1024


def rss(pid: int) -> int:
    """The memory of a process, in bytes."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.parametrize(
    ("beginning", "rest", "connections"),
    [
        (CHUNKED + b"0\r\n", b"X:y\r\n" * 10_000, 2),
        (CHUNKED + b"0\r\nX: ", b"y" * 60_000, 2),
        (CHUNKED + b"1;a=", b"y" * 60_000, 2),
        (CHUNKED, b"1\r\nx\r\n" * 10_000, 10),
        (b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 2_000, 40),
        (POST + b"Content-Length: 7000000\r\n\r\n", b"x" * 60_000, 40),
    ],
    ids=["trailers", "a trailer", "an extension", "chunks", "pipelined", "half a body"],
)
def test_unauthenticated_clients_cannot_exhaust_memory(
    beginning: bytes, rest: bytes, connections: int
) -> None:
    with open_door_process("ForgetfulEngine", drain_seconds=0) as running, contextlib.ExitStack() as stack:
        before = rss(running.process.pid)
        open_ones = [stack.enter_context(running.door.socket()) for _ in range(connections)]
        for connection in open_ones:
            connection.settimeout(0.02)
            with contextlib.suppress(OSError):
                connection.sendall(beginning)
        for _ in range(100):
            for connection in open_ones:
                with contextlib.suppress(OSError):
                    connection.sendall(rest)
            open_ones = [open_one for open_one in open_ones if open_one.fileno() >= 0][: max(2, connections)]
            if rss(running.process.pid) > before + 80 * MEBIBYTE:
                break
        grown = rss(running.process.pid) - before
    assert grown < 80 * MEBIBYTE


@dataclasses.dataclass(eq=False)
class Stub:
    """A connection that only remembers whether it was closed."""

    is_busy: bool = False
    is_closed: bool = False

    def abort(self) -> None:
        self.is_closed = True


def opened(
    connections: UnauthenticatedConnections, address: str, size: int, *, is_busy: bool = False
) -> Stub:
    stub = Stub(is_busy)
    connections.add(stub, address, size)
    return stub


def test_too_many_connections_of_an_address_close_its_oldest_idle_one() -> None:
    connections = UnauthenticatedConnections(FrontDoorSettings(max_address_connections=2))
    busy, idle = opened(connections, "a", 1, is_busy=True), opened(connections, "a", 1)
    other, new = opened(connections, "b", 1), opened(connections, "a", 1)
    assert [item.is_closed for item in (busy, idle, other, new)] == [False, True, False, False]
    assert (len(connections), connections.held_bytes) == (3, 3)


def test_too_much_memory_closes_connections_of_the_heaviest_address() -> None:
    connections = UnauthenticatedConnections(FrontDoorSettings(max_unauthenticated_bytes=100))
    honest, heavy = opened(connections, "a", 30), [opened(connections, "b", 30) for _ in range(3)]
    assert [item.is_closed for item in (honest, *heavy)] == [False, True, False, False]
    connections.resize(honest, "a", 200)
    assert honest.is_closed
    for item in heavy:
        connections.remove(item, "b")
    assert (len(connections), connections.held_bytes) == (0, 0)


def test_without_limits_no_connection_is_closed() -> None:
    connections = UnauthenticatedConnections(
        FrontDoorSettings(max_unauthenticated_bytes=0, max_address_connections=0)
    )
    assert not any(opened(connections, "a", MEBIBYTE).is_closed for _ in range(2_000))


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("", "local"),
        (None, "local"),
    ],
)
def test_an_ipv6_address_counts_as_its_network(host: str | None, address: str) -> None:
    assert network_address(host) == address


@pytest.mark.parametrize(
    ("request_fields", "level"),
    [
        ({"userInfo": {"username": "jane", "groups": ["system:masters"]}}, PriorityLevel.EXEMPT),
        ({"userInfo": {"username": "system:apiserver"}}, PriorityLevel.EXEMPT),
        ({"userInfo": NODE, "resource": NODES}, PriorityLevel.NODE_HIGH),
        ({"userInfo": NODE, "resource": LEASES, "namespace": "kube-node-lease"}, PriorityLevel.NODE_HIGH),
        ({"userInfo": NODE}, PriorityLevel.SYSTEM),
        ({"resource": LEASES, "namespace": "kube-system"}, PriorityLevel.LEADER_ELECTION),
        ({"resource": LEASES, "namespace": "kube-node-lease"}, PriorityLevel.LEADER_ELECTION),
        ({"resource": LEASES, "namespace": "default"}, PriorityLevel.ORDINARY),
        (
            {"resource": LEASES, "userInfo": {"username": "system:kube-scheduler"}},
            PriorityLevel.LEADER_ELECTION,
        ),
        ({"userInfo": {"username": "system:kube-scheduler"}}, PriorityLevel.WORKLOAD_HIGH),
        ({"userInfo": {"username": "system:kube-controller-manager"}}, PriorityLevel.WORKLOAD_HIGH),
        ({"userInfo": {"username": "system:serviceaccount:kube-system:x"}}, PriorityLevel.WORKLOAD_HIGH),
        ({"userInfo": {"username": "system:serviceaccount:kube-system2:x"}}, PriorityLevel.ORDINARY),
        ({"userInfo": {"username": "system:nodes", "groups": ["system:nodes2"]}}, PriorityLevel.ORDINARY),
        ({"userInfo": {"username": "jane"}, "resource": NODES}, PriorityLevel.ORDINARY),
    ],
)
def test_a_review_has_the_priority_that_the_api_server_gives_it(
    request_fields: dict[str, Any], level: PriorityLevel
) -> None:
    assert priority_of(decode_review(review_body(**request_fields), ANY_NAMESPACE).review) is level


@contextlib.contextmanager
def hanging(settings: FrontDoorSettings, count: int, headers: dict[str, str] = JSON_TYPE) -> Iterator[Door]:
    """A front door with that many ordinary reviews in flight."""
    engine = HangingEngine()
    with open_door(engine, settings) as door, contextlib.ExitStack() as stack:
        stack.callback(engine.released.set_result, None)
        for _ in range(count):
            connection = stack.enter_context(contextlib.closing(door.connect()))
            connection.request("POST", "/validate", review_body(), headers)
        yield door


def shed(door: Door, body: bytes, headers: dict[str, str] = JSON_TYPE) -> bool:
    """Whether a review is turned away; it is answered with 504 where it is not, as nothing is ever decided."""
    with contextlib.closing(door.connect()) as connection:
        answer = exchange(connection, "POST", "/validate?timeout=200ms", body, headers)
    assert answer.code in {503, 504}
    assert "Retry-After" not in answer.headers
    return answer.code == 503


def test_urgent_reviews_use_the_reserve_when_ordinary_ones_are_shed() -> None:
    settings = FrontDoorSettings(
        max_in_flight_bytes=2 * MIN_REVIEW_BYTES, reserved_in_flight_bytes=MIN_REVIEW_BYTES
    )
    urgent = review_body(userInfo=NODE)
    with hanging(settings, 2) as door:
        assert within(PATIENCE_SECONDS, lambda: shed(door, review_body()))
        assert not shed(door, urgent)
        metrics = door.get("/metrics").text
    assert 'pratique_frontdoor_shed_by_priority_total{limit="total",priority="ordinary"}' in metrics


def test_urgent_reviews_are_shed_when_the_reserve_is_used_up() -> None:
    settings = FrontDoorSettings(max_in_flight_bytes=MIN_REVIEW_BYTES, reserved_in_flight_bytes=0)
    with hanging(settings, 1) as door:
        assert within(PATIENCE_SECONDS, lambda: shed(door, review_body(userInfo=NODE)))


@pytest.mark.parametrize("limit", [{"max_address_requests": 2}, {"max_address_bytes": 2 * MIN_REVIEW_BYTES}])
def test_reviews_in_flight_are_limited_by_address(limit: dict[str, int]) -> None:
    with hanging(FrontDoorSettings(**limit), 2) as door:  # type: ignore[arg-type] # numbers
        assert within(PATIENCE_SECONDS, lambda: shed(door, review_body()))
        assert not shed(door, review_body(userInfo=NODE))


@pytest.mark.parametrize("limit", [{"max_caller_requests": 2}, {"max_caller_bytes": 2 * MIN_REVIEW_BYTES}])
def test_reviews_in_flight_are_limited_by_caller(tmp_path: Path, limit: dict[str, int]) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("first\nsecond\n")
    first, second = ({**JSON_TYPE, "Authorization": f"Bearer {name}"} for name in ("first", "second"))
    settings = FrontDoorSettings(token_file=tokens, **limit)  # type: ignore[arg-type] # numbers
    with hanging(settings, 2, first) as door:
        assert within(PATIENCE_SECONDS, lambda: shed(door, review_body(), first))
        assert not shed(door, review_body(), second)


def test_authenticated_connections_are_not_closed_for_unauthenticated_ones(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("right\n")
    settings = FrontDoorSettings(token_file=tokens, max_address_connections=3)
    headers = {**JSON_TYPE, "Authorization": "Bearer right"}
    with open_door(AllowingEngine(), settings) as door, contextlib.ExitStack() as stack:
        known = stack.enter_context(contextlib.closing(door.connect()))
        assert exchange(known, "POST", "/validate", review_body(), headers).code == 200
        strangers = [stack.enter_context(door.socket()) for _ in range(5)]
        assert [read_all(stranger) for stranger in strangers[:2]] == [b"", b""]  # the two oldest are closed
        assert exchange(known, "POST", "/validate", review_body(), headers).code == 200
        metrics = exchange(known, "GET", "/metrics", None, headers).text
    assert 'pratique_frontdoor_connections_closed_total{reason="address"} 2.0' in metrics


def test_a_client_that_does_not_read_answers_is_disconnected() -> None:
    settings = FrontDoorSettings(body_seconds=0.1, keep_alive_seconds=3600, max_unauthenticated_bytes=0)
    with open_door(AllowingEngine(), settings) as door, door.socket() as connection:
        connection.settimeout(0.2)
        with contextlib.suppress(TimeoutError):  # more answers than the sockets have room for
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 2_000)
        closed = 'pratique_frontdoor_connections_closed_total{reason="stalled"} 1.0'
        assert within(PATIENCE_SECONDS, lambda: closed in door.get("/metrics").text)
