from __future__ import annotations

import contextlib
import http.client
import signal
import time

import pytest

from support.front_doors.reviews import review_body
from support.front_doors.running import JSON_TYPE, PATIENCE_SECONDS, Answer, Door, exchange, open_door_process

BODY = review_body()


def post(connection: http.client.HTTPConnection) -> Answer:
    return exchange(connection, "POST", "/validate", BODY, JSON_TYPE)


def wait_until_draining(door: Door) -> Answer:
    until = time.monotonic() + PATIENCE_SECONDS
    while (answer := door.get("/readyz")).code == 200:
        assert time.monotonic() < until
    return answer


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_front_door_with_exit_code_0(stop: signal.Signals) -> None:
    with open_door_process("AllowingEngine", drain_seconds=0) as running:
        running.process.send_signal(stop)
        code, logged = running.wait()
    assert code == 0
    assert [(line["service"], line["level"], line["message"]) for line in logged] == [
        ("frontdoor", "info", "draining")
    ]


def test_ctrl_c_waits_for_reviews_in_flight_and_for_no_load_balancer() -> None:
    with (
        open_door_process("TellingSlowEngine", drain_seconds=PATIENCE_SECONDS * 10) as running,
        contextlib.closing(running.door.connect()) as connection,
    ):
        connection.request("POST", "/validate", BODY, JSON_TYPE)
        running.wait_until_begun()
        running.process.send_signal(signal.SIGINT)
        assert connection.getresponse().status == 200
        assert running.wait()[0] == 0


def test_a_draining_front_door_is_not_ready_and_still_answers() -> None:
    with open_door_process("AllowingEngine", drain_seconds=30) as running:
        running.process.terminate()
        answer = wait_until_draining(running.door)
        assert (answer.code, answer.text) == (503, "draining")
        assert running.door.get("/livez").code == 200
        for path in ("/validate", "/mutate", "/admit", "/explain"):
            review = running.door.post(path)
            assert (review.code, review.headers["Connection"]) == (200, "close")
        running.process.kill()


def test_a_draining_front_door_closes_an_idle_connection_with_its_next_answer() -> None:
    with (
        open_door_process("AllowingEngine", drain_seconds=30) as running,
        contextlib.closing(running.door.connect()) as idle,
    ):
        assert post(idle).headers["Connection"] is None
        running.process.terminate()
        wait_until_draining(running.door)
        time.sleep(1.2)  # until uvicorn has made the headers of the next second
        answer = post(idle)
        assert (answer.code, answer.headers["Connection"]) == (200, "close")
        assert idle.sock is None
        running.process.kill()


def test_idle_connections_do_not_delay_the_exit() -> None:
    with (
        open_door_process("AllowingEngine", drain_seconds=0.2) as running,
        contextlib.closing(running.door.connect()) as used,
        running.door.socket() as silent,
    ):
        post(used)
        running.process.terminate()
        code, _ = running.wait()
        assert (code, silent.recv(1)) == (0, b"")


def test_a_review_in_flight_when_the_listener_closes_is_answered() -> None:
    with (
        open_door_process("TellingSlowEngine", drain_seconds=0.2) as running,  # the engine takes 0.5 s
        contextlib.closing(running.door.connect()) as connection,
    ):
        connection.request("POST", "/validate", BODY, JSON_TYPE)
        running.wait_until_begun()
        running.process.terminate()
        assert connection.getresponse().status == 200
        assert running.wait()[0] == 0


def test_a_review_that_outlives_the_drain_is_answered() -> None:
    with (
        open_door_process("TellingHangingEngine", drain_seconds=0.2, max_timeout_seconds=1) as running,
        contextlib.closing(running.door.connect()) as connection,
    ):
        connection.request("POST", "/validate?timeout=30s", BODY, JSON_TYPE)
        running.wait_until_begun()
        running.process.terminate()
        assert connection.getresponse().status == 504
        assert running.wait()[0] == 0


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_process_immediately(second: signal.Signals) -> None:
    with open_door_process("AllowingEngine", drain_seconds=PATIENCE_SECONDS * 10) as running:
        running.process.terminate()
        wait_until_draining(running.door)
        running.process.send_signal(second)
        assert running.wait()[0] == -second


def test_no_review_is_lost_during_a_restart() -> None:
    """As a load balancer would: off to the next front door as soon as this one is not ready."""
    codes = []
    with (
        open_door_process("AllowingEngine", drain_seconds=3) as first,  # all connections are used once more
        open_door_process("AllowingEngine", drain_seconds=0) as second,
    ):
        connections = [first.door.connect() for _ in range(5)]
        for turn in range(60):
            if turn == 20:
                first.process.terminate()
                wait_until_draining(first.door)
            connection = connections[turn % 5]
            codes.append(post(connection).code)
            if turn >= 20 and connection.sock is None:
                connections[turn % 5] = second.door.connect()
        for connection in connections:
            connection.close()
        assert first.wait()[0] == 0
    assert codes == [200] * 60
