"""Bodies that some parsers accept as JSON, and the front door's answers."""

from __future__ import annotations

import gzip
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from pratique.apimachinery.json_values import JSON
from pratique_frontdoor.settings import FrontDoorSettings
from support.front_doors.engines import AllowingEngine
from support.front_doors.reviews import POD, review_body, review_document
from support.front_doors.running import LONG_TIMEOUTS, Door, open_door, open_door_process
from support.hostile_json import HARMLESS, HOSTILE

MIB = 1024 * 1024
BODY = 7 * MIB
CANARY = b"canary"


def around(raw: bytes, field: str = "object") -> bytes:
    """A review that has this text in place of its object."""
    marker = b'"-the object-"'
    return review_body(**{field: "-the object-"}).replace(marker, raw)


@pytest.mark.parametrize("path", ["/validate", "/mutate"])
@pytest.mark.parametrize(("raw", "problem"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_object_is_a_bad_request(allowing: Door, path: str, raw: bytes, problem: str) -> None:
    answer = allowing.post(path, around(raw))
    assert (answer.code, answer.json["reason"]) == (400, "BadRequest")
    assert answer.json["message"].startswith(f"the body {problem}".partition(" byte ")[0])
    assert "Retry-After" not in answer.headers
    assert len(answer.text) < 400


@pytest.mark.parametrize("path", ["/validate", "/mutate"])
@pytest.mark.parametrize("raw", HARMLESS.values(), ids=HARMLESS)
def test_an_object_that_only_looks_hostile_is_decided(allowing: Door, path: str, raw: bytes) -> None:
    raw = raw.replace(b"[" * 199 + b"]" * 199, b"[" * 197 + b"]" * 197)
    assert allowing.post(path, around(raw)).code == 200


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig"])
def test_a_review_in_another_encoding_is_a_bad_request(allowing: Door, encoding: str) -> None:
    assert allowing.post("/validate", review_body().decode().encode(encoding)).code == 400


@pytest.mark.parametrize(
    "twice",
    [
        (b'"uid":', b'"uid": "other", "uid":'),
        (b'"object":', b'"object": null, "object":'),
        (b'"request":', b'"request": null, "request":'),
        (b'"operation":', b'"operation": "DELETE", "\\u006fperation":'),
    ],
)
def test_duplicate_members_of_the_envelope_are_refused(allowing: Door, twice: tuple[bytes, bytes]) -> None:
    answer = allowing.post("/validate", review_body().replace(*twice))
    assert answer.code == 400
    assert answer.json["message"].startswith(
        "the body holds a member twice, in the object or array that begins"
    )


@pytest.mark.parametrize("field", ["name", "namespace"])
def test_a_name_with_a_nul_is_refused(allowing: Door, field: str) -> None:
    answer = allowing.post("/validate", review_body(**{field: "canary\0"}))
    assert answer.code == 400
    assert answer.json["message"].endswith(f"a NUL - at `$.request.{field}`")


@pytest.mark.parametrize("levels", [1, 60, 198, 199, 1_000, 100_000])
def test_a_body_has_at_most_200_levels(allowing: Door, levels: int) -> None:
    answer = allowing.post("/validate", around(b'{"a":' * levels + b"1" + b"}" * levels))
    assert answer.code == (200 if levels <= 198 else 400)  # the object begins on the third
    if levels > 198:
        assert answer.json["message"] == "the body is nested too deeply: it has more than 200 levels"


def test_an_object_of_sixty_levels_is_unchanged() -> None:
    schema: JSON = {"type": "string"}
    for _ in range(29):
        schema = {"properties": {"field": schema}}
    engine = AllowingEngine()
    with open_door(engine) as door:
        assert door.post("/validate", review_body(object={"spec": schema})).code == 200
    assert engine.asked[0][0].object == {"spec": schema}


def filled(unit: bytes, before: bytes = b'{"items":[', after: bytes = b"]}") -> bytes:
    """A review as long as it may be, whose object repeats ``unit``."""
    room = BODY - len(around(before + after))
    count = (room + 1) // (len(unit) + 1)
    return around(before + b",".join([unit] * count) + after)


def pod_list() -> bytes:
    return filled(json.dumps(POD, separators=(",", ":")).encode())


def csv() -> bytes:
    return filled(b'1,2,[3],\\"four\\",{5}\\n', b'{"data":{"table.csv":"', b'"}}')


HEAVY = {
    "empty arrays": b"[]",
    "empty objects": b"{}",
    "arrays in arrays": b"[" * 50 + b"]" * 50,
    "numbers": b"1",
    "short texts with commas": b'"a,,b"',
}


@pytest.mark.parametrize("unit", HEAVY.values(), ids=HEAVY)
def test_seven_mebibytes_of_empty_values_are_refused(allowing: Door, unit: bytes) -> None:
    answer = allowing.post("/validate", filled(unit))
    assert (answer.code, answer.json["message"]) == (400, "the body holds more than 600000 values")


def pairs() -> bytes:
    """A ConfigMap of many keys: one object that is read in one step."""
    return around(b'{"data":{%s}}' % b",".join(b'"key-%06d":"value"' % number for number in range(300_000)))


HONEST = {"a list of Pods": pod_list, "a table in a ConfigMap": csv, "keys of a ConfigMap": pairs}


@pytest.mark.parametrize("body", HONEST.values(), ids=HONEST)
def test_a_legal_object_of_seven_mebibytes_is_decided(allowing: Door, body: Callable[[], bytes]) -> None:
    assert allowing.post("/validate", body()).code == 200


def test_no_hostile_body_takes_more_than_64_mebibytes() -> None:
    with open_door_process("AllowingEngine", drain_seconds=0, **LONG_TIMEOUTS) as running:
        assert running.door.post("/validate").code == 200
        before = high_water_mark(running.process.pid)
        for body in (*map(filled, HEAVY.values()), pod_list(), csv()):
            running.door.post("/validate", body)
        (reader,) = readers(running.process.pid)
        grown, read = high_water_mark(running.process.pid) - before, high_water_mark(reader)
        running.process.terminate()
        running.wait()
    print(f"grown by {grown / MIB:.0f} MiB, its reader to {read / MIB:.0f}")  # noqa: T201 - a number to keep an eye on
    assert max(grown, read) < 64 * MIB


def test_a_review_whose_reader_process_is_killed_is_decided() -> None:
    with open_door_process("AllowingEngine", drain_seconds=0, **LONG_TIMEOUTS) as running:
        assert running.door.post("/validate", csv()).code == 200
        for _ in range(3):
            (reader,) = readers(running.process.pid)
            os.kill(reader, signal.SIGKILL)
            assert running.door.post("/validate", csv()).code == 200
        running.process.terminate()
        running.wait()


def test_a_review_that_no_reader_process_can_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pratique.processes.large_texts._MODULE", "pratique.nowhere")
    with open_door(AllowingEngine(), FrontDoorSettings(**LONG_TIMEOUTS)) as door:
        assert door.post("/validate", csv()).code == 500
        assert door.post("/validate").code == 200


def readers(service: int) -> list[int]:
    """The processes that a service has started."""
    files = Path(f"/proc/{service}/task").glob("*/children")
    return [int(pid) for file in files for pid in file.read_text().split()]


ENCODED = [
    {"Content-Type": "application/json", "Content-Encoding": item}
    for item in ("gzip", "deflate", "br", "zstd", "gzip, gzip")
]


def test_a_refused_body_costs_little_time() -> None:
    piece = bytes(64 * 1024)
    bomb = gzip.compress(bytes(32 * MIB))
    with open_door_process("AllowingEngine", drain_seconds=0, **LONG_TIMEOUTS) as running:
        assert running.door.post("/validate").code == 200
        before = high_water_mark(running.process.pid)
        codes = [running.door.request("POST", "/validate", bomb, headers).code for headers in ENCODED]
        # Without a length, so that it is read up to the limit.
        codes.append(running.door.post("/validate", iter([piece] * 512)).code)
        grown = high_water_mark(running.process.pid) - before
        running.process.terminate()
        running.wait()
    print(f"grown by {grown / MIB:.0f} MiB")  # noqa: T201 - a number to keep an eye on
    assert codes == [415] * 5 + [413]
    assert grown < 16 * MIB


def high_water_mark(pid: int) -> int:
    """The most memory that a process has had at a time, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


@pytest.mark.parametrize("field", sorted(review_document()["request"]))
def test_an_answer_repeats_nothing_of_a_hostile_body(allowing: Door, field: str) -> None:
    hostile = b'{"canary": "canary", "canary": [18446744073709551616]}'
    assert CANARY not in allowing.post("/validate", around(hostile, field)).body


def test_a_connection_survives_a_hostile_body(allowing: Door) -> None:
    connection = allowing.connect()
    codes = []
    for body in (HEAVY["empty arrays"], review_body(), around(b'{"a":1,"a":2}'), review_body()):
        connection.request("POST", "/validate", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        codes.append(response.status)
    connection.close()
    assert codes == [400, 200, 400, 200]
