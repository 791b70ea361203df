"""A front door that records: a real process, over HTTP."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Any

from support.front_doors.reviews import review_body
from support.front_doors.running import Door, open_door_process
from support.waiting import within

PATIENCE = 120.0
SECRET = {"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "canary"}}


def lines(*paths: Path) -> list[Any]:
    return [json.loads(line) for path in paths for line in path.read_bytes().splitlines()]


def counted(door: Door, what: str) -> int:
    found = re.search(rf"^pratique_recording_{what}_total (\S+)$", door.get("/metrics").text, re.MULTILINE)
    return int(float(found[1])) if found else -1


def test_reviews_and_decisions_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "reviews.jsonl"
    with open_door_process("PatchingEngine", record=str(path), drain_seconds=0) as running:
        for asked in ("/admit", "/mutate", "/validate", "/explain?phase=mutate"):
            assert running.door.post(asked, review_body(object=SECRET)).code == 200
        running.process.terminate()
        assert running.wait()[0] == 0
    found = lines(path)
    assert [(line["path"], line["phase"]) for line in found] == [
        ("/admit", "admit"),
        ("/mutate", "mutate"),
        ("/validate", "validate"),
        ("/explain", "mutate"),
    ]
    assert found[0]["decision"]["patch"] == [
        {"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}
    ]
    assert found[0]["decision"]["warnings"] == ["labelled"]
    assert b"canary" not in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_lines_are_counted_and_a_killed_front_door_leaves_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "reviews.jsonl"
    with open_door_process("AllowingEngine", record=str(path)) as running:
        for _ in range(20):
            running.door.post("/admit")
        assert within(PATIENCE, lambda: counted(running.door, "written") == 20)
        assert counted(running.door, "dropped") == 0
        running.process.kill()
    assert len(lines(path)) == 20


def test_files_are_rotated_and_bounded(tmp_path: Path) -> None:
    path = tmp_path / "reviews.jsonl"
    limits = {"record_max_bytes": 3000, "record_files": 2}
    with open_door_process("AllowingEngine", record=str(path), drain_seconds=0, **limits) as running:
        for number in range(30):
            running.door.post("/admit", review_body(uid=f"u{number}"))
        running.process.terminate()
        assert running.wait()[0] == 0
    assert sorted(item.name for item in tmp_path.iterdir()) == ["reviews.jsonl", "reviews.jsonl.1"]
    assert all(item.stat().st_size <= 3000 for item in tmp_path.iterdir())
    kept = [line["review"]["request"]["uid"] for line in lines(tmp_path / "reviews.jsonl.1", path)]
    assert kept == [f"u{number}" for number in range(30 - len(kept), 30)]


def test_reviews_are_answered_when_the_disk_is_full() -> None:
    with open_door_process("AllowingEngine", record="/dev/full", drain_seconds=0) as running:
        for _ in range(10):
            assert running.door.post("/admit").json["response"]["allowed"]
        assert within(PATIENCE, lambda: counted(running.door, "dropped") == 10)
        running.process.terminate()
        code, logged = running.wait()
    assert code == 0
    dropped = [item for item in logged if item["message"] == "lines of the recording were dropped"]
    assert {item["reason"] for item in dropped} == {"No space left on device"}
    assert sum(item["count"] for item in dropped) == 10


def test_reviews_are_answered_when_the_folder_disappears(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    path = folder / "reviews.jsonl"
    with open_door_process("AllowingEngine", record=str(path), drain_seconds=0) as running:
        path.unlink()
        folder.rmdir()
        assert running.door.post("/admit").code == 200
        assert within(PATIENCE, lambda: counted(running.door, "dropped") == 1)
        folder.mkdir()
        assert running.door.post("/admit").code == 200
        assert within(PATIENCE, lambda: counted(running.door, "written") == 1)
    assert len(lines(path)) == 1


def test_without_a_recording_there_are_no_metrics_for_it(allowing: Door) -> None:
    assert "pratique_recording" not in allowing.get("/metrics").text
