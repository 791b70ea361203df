"""Recorders write beside the reviews, and never in their way."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from pratique.admission.controllers import BOTH
from pratique.apimachinery.errors import ConfigurationError
from pratique.cluster.store import ANY_NAMESPACE
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.http.codecs import ReceivedReview, decode_review
from pratique_frontdoor.recording import recorders
from pratique_frontdoor.recording.files import RotatedFile
from pratique_frontdoor.recording.recorders import ConfigurationDigest, LineWriter, Recorder, open_recorder
from pratique_frontdoor.settings import FrontDoorSettings
from support.front_doors.reviews import review_body

DECISION = Decision(uid="u", allowed=True)


def received(uid: str = "u") -> ReceivedReview:
    return decode_review(review_body(uid=uid), ANY_NAMESPACE)


def recorder_of(file: RotatedFile, config: Sequence[Path] = ()) -> Recorder:
    return Recorder([file], LineWriter(b"k" * 32, 1 << 20), ConfigurationDigest(config))


class StuckFile(RotatedFile):
    """A file on a disk that does not answer until it is let go."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, max_bytes=1 << 30, files=1)
        self.reached = threading.Event()
        self.free = threading.Event()

    def append(self, line: bytes) -> None:
        self.reached.set()
        assert self.free.wait(120)
        super().append(line)


def test_nothing_is_recorded_without_the_setting() -> None:
    assert open_recorder(FrontDoorSettings()) is None


def test_waiting_lines_are_written_on_close(tmp_path: Path) -> None:
    path = tmp_path / "reviews.jsonl"
    recorder = open_recorder(FrontDoorSettings(record=path))
    assert recorder is not None
    for number in range(100):
        recorder.record("/admit", BOTH, received(f"u{number}"), DECISION)
    recorder.close()
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [line["review"]["request"]["uid"] for line in lines] == [f"u{number}" for number in range(100)]
    assert (recorder.written, recorder.dropped) == (100, 0)


def test_a_hanging_disk_drops_lines_and_delays_no_review(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recorders, "_WAITING", 10)
    file = StuckFile(tmp_path / "reviews.jsonl")
    recorder = recorder_of(file)
    recorder.record("/admit", BOTH, received(), DECISION)
    assert file.reached.wait(120)
    for _ in range(25):
        recorder.record("/admit", BOTH, received(), DECISION)
    assert recorder.dropped == 15
    recorder.close(seconds=0.01)
    assert [record.getMessage() for record in caplog.records] == ["the recording is incomplete"]
    file.free.set()
    recorder.close(seconds=30)
    assert recorder.written == 11
    assert vars(caplog.records[-1])["count"] == 15


def test_waiting_entries_are_bounded_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorders, "_WAITING_BYTES", 1000)
    file = StuckFile(tmp_path / "reviews.jsonl")
    recorder = recorder_of(file)
    for _ in range(100):
        recorder.record("/admit", BOTH, received(), DECISION)
    assert 80 < recorder.dropped < 100
    file.free.set()
    recorder.close(seconds=30)
    assert recorder.written + recorder.dropped == 100


def test_a_full_disk_is_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    recorder = recorder_of(RotatedFile(Path("/dev/full"), max_bytes=1 << 20, files=1))
    for _ in range(50):
        recorder.record("/admit", BOTH, received(), DECISION)
    recorder.close(seconds=30)
    assert (recorder.written, recorder.dropped) == (0, 50)
    records = [vars(record) for record in caplog.records]
    assert {item["reason"] for item in records} == {"No space left on device"}
    assert sum(item["count"] for item in records) == 50
    assert len(records) <= 2


def test_a_decision_that_cannot_be_encoded_is_dropped_and_the_next_is_written(tmp_path: Path) -> None:
    path = tmp_path / "reviews.jsonl"
    recorder = recorder_of(RotatedFile(path, max_bytes=1 << 20, files=1))
    broken = Decision(uid="u", allowed=True, warnings=(object(),))  # type: ignore[arg-type] # it is what is tried
    recorder.record("/admit", BOTH, received(), broken)
    recorder.record("/admit", BOTH, received("next"), DECISION)
    recorder.close(seconds=30)
    assert (recorder.written, recorder.dropped) == (1, 1)
    assert json.loads(path.read_bytes())["review"]["request"]["uid"] == "next"


def test_an_unwritable_recording_is_a_configuration_error(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "reviews.jsonl"
    with pytest.raises(ConfigurationError) as caught:
        open_recorder(FrontDoorSettings(record=path))
    assert str(caught.value) == f"--record {path}: cannot be written to: No such file or directory"


def test_the_configuration_digest_depends_on_the_contents(tmp_path: Path) -> None:
    configuration_file = tmp_path / "one.yaml"
    configuration_file.write_text("a: 1")
    now = 0.0
    digest = ConfigurationDigest([configuration_file], lambda: now)
    first = digest.current
    configuration_file.write_text("a: 22")
    assert digest.current == first
    now = 2.0
    second = digest.current
    assert second != first
    os.utime(configuration_file, (1, 1))
    now = 4.0
    assert digest.current == second
    assert ConfigurationDigest([]).current == ""
    assert first.startswith("sha256:")
