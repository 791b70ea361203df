"""Clients in numbers: slow ones, too many at once, idle ones, and one that takes all it can get."""

from __future__ import annotations

import contextlib
import itertools
import resource
import selectors
import socket
import statistics
import threading
import time
from collections.abc import Iterator

import pytest

from pratique.apimachinery.json_values import encode
from support.front_doors.reviews import POD, review_body, review_body_of
from support.front_doors.running import JSON_TYPE, PATIENCE_SECONDS, Door, exchange, open_door_process

BODY = review_body()
POST = b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
WHOLE = POST + b"Content-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(BODY), BODY)
SLOW_HEAD = POST + b"X-Slow: "
SLOW_BODY = POST + b"Content-Length: 1000000\r\n\r\n{"
SILENT = b""
IMPATIENT = {"head_seconds": 1.0, "body_grace_seconds": 1.0}


class Crowd:
    """Connections that send a byte now and then, and notice when they are closed."""

    def __init__(self, door: Door, beginnings: list[bytes]) -> None:
        self.opened = time.monotonic()
        self.seconds: list[float] = []
        self._left = selectors.DefaultSelector()
        for beginning in beginnings:
            connection = door.socket()
            connection.sendall(beginning)
            connection.setblocking(False)
            self._left.register(connection, selectors.EVENT_READ, beginning != SILENT)

    def dribble(self) -> None:
        """Go on until all are closed, or patience is at its end; the seconds each of them lasted are kept."""
        while self._left.get_map() and time.monotonic() - self.opened < PATIENCE_SECONDS * 2:
            for key, _ in self._left.select(0.2):
                self._read(key)
            for key in list(self._left.get_map().values()):
                if key.data:
                    with contextlib.suppress(OSError):
                        key.fileobj.send(b"x")  # type: ignore[union-attr] # they are sockets
        self._left.close()

    def _read(self, key: selectors.SelectorKey) -> None:
        connection = key.fileobj
        assert isinstance(connection, socket.socket)
        with contextlib.suppress(ConnectionError):
            if connection.recv(65536):
                return
        self._left.unregister(connection)
        connection.close()
        self.seconds.append(time.monotonic() - self.opened)


def reviewed(door: Door, count: int) -> list[float]:
    """Have that many reviews decided, and say how long each took. None may be lost."""
    seconds = []
    with contextlib.closing(door.connect()) as connection:
        for _ in range(count):
            began = time.monotonic()
            assert exchange(connection, "POST", "/validate", BODY, JSON_TYPE).code == 200
            seconds.append(time.monotonic() - began)
    return seconds


@contextlib.contextmanager
def many_files() -> Iterator[None]:
    """Let this process and its children have as many connections as the system grants."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(
    ("each", "reviews", "settings"),
    [
        (20, 100, IMPATIENT),
        pytest.param(200, 500, {}, marks=pytest.mark.long),
    ],
)
def test_slow_clients_are_disconnected_and_no_review_is_lost(
    each: int, reviews: int, settings: dict[str, float]
) -> None:
    with many_files(), open_door_process("AllowingEngine", drain_seconds=0, **settings) as running:
        alone = reviewed(running.door, reviews)
        crowd = Crowd(running.door, [SLOW_HEAD, SLOW_BODY, SILENT] * each)
        thread = threading.Thread(target=crowd.dribble)
        thread.start()
        beside = reviewed(running.door, reviews)
        thread.join()
        running.process.terminate()
        running.wait()
    assert len(crowd.seconds) == 3 * each
    print(  # noqa: T201 - numbers to keep an eye on
        f"last closed after {max(crowd.seconds):.1f} s; p99 {p99(alone):.1f} ms alone, {p99(beside):.1f} ms beside"
    )


def p99(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=100)[98] * 1000


@pytest.mark.parametrize(
    ("connections", "seconds"),
    [(100, 3), pytest.param(2_000, 10, marks=pytest.mark.long)],
    ids=["100", "2000"],
)
def test_every_review_of_a_flood_is_answered_and_excess_ones_first(connections: int, seconds: float) -> None:
    settings = {"max_in_flight_bytes": 8 * 65536, "default_timeout_seconds": seconds}
    with many_files(), open_door_process("HangingEngine", drain_seconds=0, **settings) as running:
        codes = list(flooded(running.door, connections))
        running.process.terminate()
        running.wait()
    assert len(codes) == connections
    held = codes.count(b"504")
    assert held >= 8
    assert set(codes) == {b"503", b"504"}
    # Nobody who is turned away waits for those who are not; it takes some seconds to open thousands.
    turned = [code for code, _ in itertools.groupby(codes)]
    assert turned[0] == b"503"
    print(f"{codes.count(b'503')} turned away, {held} held")  # noqa: T201 - numbers to keep an eye on


def flooded(door: Door, connections: int) -> Iterator[bytes]:
    """Send a review on each of that many connections, and give the codes in the order in which they come."""
    waiting = selectors.DefaultSelector()
    for _ in range(connections):
        connection = door.socket()
        connection.sendall(WHOLE)
        waiting.register(connection, selectors.EVENT_READ)
    while waiting.get_map():
        ready = waiting.select(PATIENCE_SECONDS)
        assert ready, "not all were answered"
        for key, _ in ready:
            answer = key.fileobj
            assert isinstance(answer, socket.socket)
            waiting.unregister(answer)
            said = answer.recv(65536)
            answer.close()
            assert b"retry-after" not in said.lower()
            yield said.split(b" ")[1]
    waiting.close()


@pytest.mark.parametrize(
    "seconds", [6, pytest.param(30, marks=pytest.mark.long), pytest.param(95, marks=pytest.mark.long)]
)
def test_a_connection_is_usable_after_it_was_idle(seconds: int) -> None:
    with open_door_process("AllowingEngine", drain_seconds=0) as running:
        with contextlib.closing(running.door.connect()) as connection:
            first = exchange(connection, "POST", "/validate", BODY, JSON_TYPE)
            time.sleep(seconds)  # what is tested is that time passes
            second = exchange(connection, "POST", "/validate", BODY, JSON_TYPE)
        running.process.terminate()
        running.wait()
    assert (first.code, second.code) == (200, 200)


@pytest.mark.long
@pytest.mark.parametrize("heavy", ["one string", "pods"])
def test_a_client_with_the_largest_reviews_leaves_room_for_others(heavy: str) -> None:
    pods = review_body(object={"items": [POD] * 45_000})
    body = review_body_of(7 * 1024 * 1024) if heavy == "one string" else pods
    assert len(encode(body.decode())) > 5_000_000
    done = threading.Event()
    codes: list[int] = []

    def press(door: Door) -> None:
        while not done.is_set():
            codes.append(door.post("/validate", body).code)

    with open_door_process("ForgetfulEngine", drain_seconds=0) as running:
        alone = reviewed(running.door, 500)
        thread = threading.Thread(target=press, args=(running.door,))
        thread.start()
        beside = reviewed(running.door, 500)
        done.set()
        thread.join()
        running.process.terminate()
        running.wait()
    assert set(codes) == {200}
    print(  # noqa: T201 - numbers to keep an eye on
        f"{heavy}: p99 {p99(alone):.1f} ms alone, {p99(beside):.1f} ms beside, largest {max(beside) * 1000:.0f} ms"
    )
