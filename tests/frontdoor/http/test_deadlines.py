from __future__ import annotations

import contextlib
import re

import pytest

from pratique_frontdoor.http.messages import query_reader
from pratique_frontdoor.settings import FrontDoorSettings
from support.front_doors.engines import AllowingEngine, FailingEngine, HangingEngine
from support.front_doors.reviews import review_body
from support.front_doors.running import JSON_TYPE, Answer, Door, open_door

OVER = "Timeout: request did not complete within requested timeout - context deadline exceeded"
PATHS = ["/mutate", "/validate", "/admit", "/explain"]


def assert_timed_out(answer: Answer) -> None:
    assert answer.code == 504
    assert (answer.json["kind"], answer.json["reason"], answer.json["message"]) == ("Status", "Timeout", OVER)
    assert "Retry-After" not in answer.headers


@pytest.mark.parametrize("path", PATHS)
def test_a_review_not_decided_in_time_is_a_timeout(path: str) -> None:
    with open_door(HangingEngine()) as door:
        assert_timed_out(door.post(f"{path}?timeout=100ms"))


def test_the_default_timeout_applies() -> None:
    with open_door(HangingEngine(), FrontDoorSettings(default_timeout_seconds=0.1)) as door:
        assert_timed_out(door.post("/validate"))


def test_a_timeout_of_the_engine_has_the_same_answer_as_one_of_the_front_door() -> None:
    with open_door(FailingEngine(error=TimeoutError())) as door:
        assert_timed_out(door.post("/validate"))


def test_a_body_that_never_arrives_is_a_timeout(allowing: Door) -> None:
    with contextlib.closing(allowing.connect()) as connection:
        connection.putrequest("POST", "/validate?timeout=100ms")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", "1000")
        connection.endheaders(b"{")
        assert connection.getresponse().status == 504


def test_the_engine_gets_the_deadline() -> None:
    engine = AllowingEngine()
    with open_door(engine) as door:
        door.post("/validate?timeout=30s")
    remaining = engine.asked[0][2]
    assert 15 < remaining <= 29.8


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ("", 9.8),
        ("timeout=", 9.8),
        ("timeout=0s", 9.8),
        ("timeout=-1s", 9.8),
        ("verbose", 9.8),
        ("timeout=1s", 0.9),
        ("timeout=2s", 1.8),
        ("timeout=3s", 2.8),
        ("timeout=10s", 9.8),
        ("timeout=1m", 29.8),
        ("timeout=30s&timeout=1s", 29.8),
        ("timeout=1500ms", 1.35),
        ("a=b&timeout=4s", 3.8),
    ],
)
def test_the_deadline_is_the_timeout_less_the_margin_for_the_answer(query: str, seconds: float) -> None:
    read = query_reader(FrontDoorSettings())
    assert read(query.encode()).seconds == pytest.approx(seconds)


@pytest.mark.parametrize("path", PATHS)
def test_an_internal_error_is_reported_only_by_an_id(path: str) -> None:
    with open_door(FailingEngine()) as door:
        answer = door.post(path)
    assert answer.code == 500
    status = answer.json
    assert status["reason"] == "InternalError"
    assert re.fullmatch(
        r"Internal error occurred: unexpected failure of the front door, logged as [0-9a-f]{16}",
        status["message"],
    )
    assert "Retry-After" not in answer.headers
    assert "broken" not in answer.text


def test_an_internal_error_affects_no_other_review() -> None:
    with open_door(FailingEngine(error=RecursionError())) as door:
        assert [door.post("/validate").code for _ in range(3)] == [500, 500, 500]
        assert door.get("/livez").code == 200


def test_a_client_that_disconnects_midway_affects_no_other(allowing: Door) -> None:
    with contextlib.closing(allowing.connect()) as connection:
        connection.putrequest("POST", "/validate")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", "1000")
        connection.endheaders(b"{")
    assert allowing.request("POST", "/validate", review_body(), JSON_TYPE).code == 200
