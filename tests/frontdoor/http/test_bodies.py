from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

import pytest

from pratique_frontdoor.http.messages import MIN_REVIEW_BYTES, Load, LoadLimits, LoadShare, RequestError
from pratique_frontdoor.settings import FrontDoorSettings
from support.front_doors.engines import AllowingEngine, HangingEngine
from support.front_doors.reviews import review_body, review_body_of
from support.front_doors.running import JSON_TYPE, Answer, Door, exchange, open_door

LIMIT = 7_340_032
TOO_LARGE = "Request entity is too large: limit is 7340032"


def chunked(body: bytes) -> Iterable[bytes]:
    """The body in pieces, which http.client sends without a Content-Length."""
    return iter([body[start : start + 100_000] for start in range(0, len(body), 100_000)])


def whole(body: bytes) -> bytes:
    return body


@pytest.mark.parametrize("way", [whole, chunked])
def test_a_body_of_7_mib_is_read(way: Callable[[bytes], bytes | Iterable[bytes]]) -> None:
    engine = AllowingEngine()
    with open_door(engine) as door:
        assert door.post("/validate", way(review_body_of(LIMIT))).code == 200
    assert len(engine.asked[0][0].object_document.raw) > LIMIT - 1000


@pytest.mark.parametrize("way", [whole, chunked])
def test_a_body_of_one_byte_more_is_too_large(
    allowing: Door, way: Callable[[bytes], bytes | Iterable[bytes]]
) -> None:
    answer = allowing.post("/validate", way(review_body_of(LIMIT + 1)))
    assert answer.code == 413
    assert answer.json["reason"] == "RequestEntityTooLarge"
    assert answer.json["message"] == TOO_LARGE
    assert "Retry-After" not in answer.headers


def test_a_body_declared_too_large_is_refused_before_it_is_sent(allowing: Door) -> None:
    with contextlib.closing(allowing.connect()) as connection:
        connection.putrequest("POST", "/validate")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(1 << 30))
        connection.endheaders()
        response = connection.getresponse()
        assert response.status == 413


def test_a_connection_survives_a_body_that_was_too_large(allowing: Door) -> None:
    with contextlib.closing(allowing.connect()) as connection:
        refused = exchange(connection, "POST", "/validate", review_body_of(LIMIT + 1), JSON_TYPE)
        accepted = exchange(connection, "POST", "/validate", review_body(), JSON_TYPE)
    assert (refused.code, accepted.code) == (413, 200)


def test_reviews_beyond_the_memory_limit_get_503_and_are_never_allowed() -> None:
    settings = FrontDoorSettings(max_in_flight_bytes=MIN_REVIEW_BYTES, default_timeout_seconds=1)
    with open_door(HangingEngine(), settings) as door, contextlib.closing(door.connect()) as first:
        first.request("POST", "/validate", review_body(), JSON_TYPE)
        answers = _until_turned_away(door)
        assert first.getresponse().status == 504
    assert answers.json["reason"] == "ServiceUnavailable"
    assert answers.json["message"].endswith("too many reviews are in flight")
    assert "Retry-After" not in answers.headers


def _until_turned_away(door: Door) -> Answer:
    # The first review may still be on its way; a second one in its place would hang, and be answered with 504.
    while (answer := door.post("/validate?timeout=100ms")).code == 504:
        pass
    assert answer.code == 503
    return answer


def test_the_bytes_of_a_review_are_released_when_it_ends() -> None:
    settings = FrontDoorSettings(max_in_flight_bytes=MIN_REVIEW_BYTES)
    with open_door(AllowingEngine(), settings) as door:
        codes = [door.post("/validate", body).code for body in (review_body(), b"{", review_body())]
    assert codes == [200, 400, 200]


def test_a_request_counts_its_bytes_and_a_review_at_least_64_kib() -> None:
    load = Load(LoadLimits(MIN_REVIEW_BYTES + 10))
    with LoadShare(load) as complete, LoadShare(load) as begun:
        complete.hold(1)
        complete.complete()
        begun.hold(10)
        with pytest.raises(RequestError, match="too many reviews are in flight") as refusal:
            begun.hold(1)
        assert refusal.value.status.code == 503
    with LoadShare(load) as next_one:
        next_one.hold(MIN_REVIEW_BYTES + 10)
        next_one.complete()
