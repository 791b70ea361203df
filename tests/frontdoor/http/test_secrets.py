"""Admission objects are secrets: what may leave the front door unrequested."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pratique.apimachinery.json_values import JSON, encode
from support.front_doors.engines import QuotingEngine
from support.front_doors.reviews import review_document
from support.front_doors.running import JSON_TYPE, Door, open_door, open_door_process

CANARY = "canary"
PATHS = ["/validate", "/mutate", "/admit", "/explain"]


@pytest.fixture(scope="module")
def quoting() -> Iterator[Door]:
    with open_door(QuotingEngine()) as door:
        yield door


def planted() -> bytes:
    """A review with a canary in every text that its sender is free to choose."""
    document = review_document(
        name="canary-1",
        namespace="canary-2",
        userInfo={
            "username": "canary-3",
            "uid": "canary-4",
            "groups": ["canary-5"],
            "extra": {"canary-6": ["canary-7"]},
        },
        object={"kind": "Secret", "metadata": {"name": "canary-8"}, "data": {"canary-9": "canary-10"}},
        oldObject={"data": {"canary-11": ["canary-12", {"canary-13": "canary-14"}]}},
        options={"fieldManager": "canary-15"},
    )
    return encode(document)


def texts(value: JSON, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths of all values."""
    if path:
        yield path
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, member in members:
        yield from texts(member, (*path, key))


def replaced(path: tuple[str | int, ...], value: JSON) -> bytes:
    document = json.loads(planted())
    parent = document
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = value
    return encode(document)


def test_an_engine_error_that_quotes_the_object_is_not_returned() -> None:
    with open_door_process("QuotingEngine", drain_seconds=0) as running:
        answers = [running.door.post(path, planted()) for path in PATHS]
        running.process.terminate()
        _, logged = running.wait()
    errors = [line for line in logged if line["message"] == "a request failed with an internal error"]
    for path, answer, error in zip(PATHS, answers, errors, strict=True):
        assert answer.code == 500, path
        assert CANARY not in answer.text, path
        assert answer.json["message"].endswith(f"logged as {error['error_id']}"), path
        assert error["error"].startswith("ValueError < conclude (front_doors/engines.py:"), path
    assert CANARY not in json.dumps(logged)


# The words of the envelope, which a complaint about them may name: no object has anything to do with them.
ENVELOPE = {("apiVersion",), ("kind",), ("request", "operation")}
REPLACEMENTS: list[tuple[tuple[str | int, ...], JSON]] = [
    (path, value)
    for path in texts(json.loads(planted()))
    for value in (7, ["canary-16"], {"canary-17": "canary-18"}, "canary-19")
    if path not in ENVELOPE or not isinstance(value, str)
]


@pytest.mark.parametrize(("path", "value"), REPLACEMENTS)
def test_errors_do_not_repeat_the_input(quoting: Door, path: tuple[str | int, ...], value: JSON) -> None:
    answer = quoting.post("/validate", replaced(path, value))
    assert answer.code in {400, 500}
    assert CANARY not in answer.text


def test_headers_and_unknown_paths_are_neither_logged_nor_counted() -> None:
    requests: list[tuple[str, dict[str, str]]] = [
        ("/validate?timeout=10s&canary=canary", {}),
        ("/canary", {}),
        ("/validate", {"Authorization": "Bearer canary", "X-Canary": "canary"}),
        ("/validate", {"Content-Type": "canary/canary"}),
        ("/validate", {"Content-Encoding": "canary"}),
    ]
    with open_door_process("QuotingEngine", drain_seconds=0) as running:
        for path, headers in requests:
            answer = running.door.request("POST", path, planted(), JSON_TYPE | headers)
            assert answer.code >= 400, path
            assert CANARY not in answer.text, path
        metrics = running.door.get("/metrics")
        running.process.terminate()
        _, logged = running.wait()
    assert CANARY not in metrics.text + json.dumps(logged)
