"""Usage histories in Prometheus: a real HTTP server that answers like Prometheus, or wrongly."""

from __future__ import annotations

import asyncio
import base64
import socket
import threading
from pathlib import Path

import pytest

from pratique.controllers.usage_history import (
    NO_SAMPLES,
    Usage,
    UsageHistoryError,
    UsageQuery,
    open_history,
)
from pratique.controllers.usage_history.prometheus import ANSWER_LIMIT, promql
from support.prometheus_servers import Reply, document, failure, serve, vector
from support.webhook_servers import COMMON_NAMES, Authority, authority

QUERY = UsageQuery(
    resource="memory", percentile=95, image="secret-image:v1", namespace="shop", start=1_000, end=605_800
)


def ask(url: str) -> Usage:
    async def asked() -> Usage:
        history = open_history(url)
        try:
            return await history.usage(QUERY)
        finally:
            await history.close()

    return asyncio.run(asked())


def ask_one_that_answers(reply: Reply) -> Usage:
    with serve(lambda _: reply) as server:
        return ask(server.url)


def test_the_query_is_sent_as_a_form() -> None:
    with serve(lambda _: vector(usage=104_857_600, samples=2016)) as server:
        assert ask(server.url) == Usage(104_857_600, 2016)
    (asked,) = server.asked
    assert (asked.path, asked.query, asked.time) == ("/api/v1/query", promql(QUERY), "605800")
    assert asked.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert "Authorization" not in asked.headers


@pytest.fixture(name="trusted")
def _trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """A certificate authority that the system trusts."""
    (tmp_path / "ca.pem").write_bytes(authority().pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    return authority()


def test_a_server_is_verified_by_its_alternative_names(trusted: Authority) -> None:
    with serve(lambda _: vector(usage=1, samples=1), trusted.issue("localhost")) as server:
        assert ask(server.url) == Usage(1, 1)


@pytest.mark.parametrize("others", COMMON_NAMES)
def test_a_server_is_not_verified_by_its_common_name(others: str, trusted: Authority) -> None:
    certificate = trusted.issue_by_common_name("localhost", *COMMON_NAMES[others])
    with (
        serve(lambda _: vector(usage=1, samples=1), certificate) as server,
        pytest.raises(UsageHistoryError),
    ):
        ask(server.url)
    assert server.asked == []


def test_a_server_may_have_a_path_and_require_a_password() -> None:
    with serve(lambda _: vector(usage=1, samples=1)) as server:
        ask(f"{server.url.replace('http://', 'http://ann:p%40ss@')}/prometheus/")
    (asked,) = server.asked
    assert asked.path == "/prometheus/api/v1/query"
    assert asked.headers["Authorization"] == f"Basic {base64.b64encode(b'ann:p@ss').decode()}"


@pytest.mark.parametrize(
    ("reply", "usage"),
    [
        (vector(usage="0.2", samples="30"), Usage(1, 30)),
        (vector(samples="31", usage="1e3"), Usage(1000, 31)),
        (vector(usage="0", samples="3"), Usage(0, 3)),
        (vector(), NO_SAMPLES),
        (vector(usage="NaN", samples="3"), NO_SAMPLES),
        (vector(usage="5", samples="0"), NO_SAMPLES),
        (vector(usage="5", samples="NaN"), NO_SAMPLES),
        (vector(usage="5"), NO_SAMPLES),
        (vector(samples="5"), NO_SAMPLES),
    ],
)
def test_an_answer_has_two_numbers_or_none(reply: Reply, usage: Usage) -> None:
    assert ask_one_that_answers(reply) == usage


BAD = failure("bad_data", 'parse error: image="secret-image:v1"', 400)
MATRIX = {"status": "success", "data": {"resultType": "matrix", "result": []}}
STRANGE = {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": "1"}]}}
NUMBERS = "Prometheus did not answer with two numbers"


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (BAD, "Prometheus answered with code 400"),
        (failure("timeout", "query timed out in secret-image", 503), "Prometheus answered with code 503"),
        (failure("execution", "too many samples", 200), NUMBERS),
        (Reply(b"<html>secret-image</html>"), NUMBERS),
        (Reply(b""), NUMBERS),
        (Reply(b'{"status": "success"'), NUMBERS),
        (Reply(b"\xff\xfe"), NUMBERS),
        (document([]), NUMBERS),
        (document(MATRIX), NUMBERS),
        (document(STRANGE), NUMBERS),
        (vector(usage="lots", samples="3"), NUMBERS),
        (vector(usage="+Inf", samples="3"), "an amount in the history is out of range"),
        (vector(usage="-1", samples="3"), "an amount in the history is out of range"),
        (Reply(b" " * (ANSWER_LIMIT + 1)), f"Prometheus answered with more than {ANSWER_LIMIT} bytes"),
        (Reply(b"", 307, {"Location": "http://localhost:1/"}), "Prometheus answered with code 307"),
        (Reply(b"{}", announced=100), "Prometheus cannot be queried: ClientPayloadError"),
    ],
)
def test_any_other_answer_is_an_error_that_reveals_nothing_of_the_object(reply: Reply, text: str) -> None:
    with pytest.raises(UsageHistoryError) as fault:
        ask_one_that_answers(reply)
    assert str(fault.value) == text


def test_an_answer_may_reach_the_size_limit() -> None:
    reply = vector(usage=5, samples=6)
    padded = Reply(reply.body.ljust(ANSWER_LIMIT), headers=reply.headers)
    assert ask_one_that_answers(padded) == Usage(5, 6)


def test_an_unreachable_server_is_an_error() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(UsageHistoryError, match="Prometheus cannot be queried: ClientConnector"):
            ask(f"http://user:word@127.0.0.1:{closed.getsockname()[1]}")


def test_a_cancelled_query_stops_waiting() -> None:
    answered = threading.Event()

    def hang(_: object) -> Reply:
        answered.wait(120)
        return vector()

    async def give_up(url: str) -> None:
        history = open_history(url)
        try:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await history.usage(QUERY)
        finally:
            await history.close()

    with serve(hang) as server:
        try:
            asyncio.run(give_up(server.url))
        finally:
            answered.set()


def test_a_history_can_be_queried_repeatedly() -> None:
    async def all_asked(url: str) -> list[Usage]:
        history = open_history(url)
        try:
            return await asyncio.gather(*(history.usage(QUERY) for _ in range(20)))
        finally:
            await history.close()

    with serve(lambda _: vector(usage=1, samples=2)) as server:
        assert asyncio.run(all_asked(server.url)) == [Usage(1, 2)] * 20
