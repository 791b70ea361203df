"""A front door that logs its decisions: a real process, over HTTP."""

from __future__ import annotations

import asyncio
import base64
import concurrent.futures
import contextlib
import errno
import http.client
import json
import os
import re
import resource
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pratique.cluster.store import ANY_NAMESPACE
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.decision_logs.entries import MAX_TEXT_LENGTH, EntryWriter, Observation
from pratique_frontdoor.decision_logs.hash_chains import ChainReport, HashChain, Verifier
from pratique_frontdoor.decision_logs.writers import DecisionLog
from pratique_frontdoor.http.codecs import decode_review
from pratique_frontdoor.http.messages import RequestError
from pratique_frontdoor.recording.files import RotatedFile
from pratique_frontdoor.recording.recorders import ConfigurationDigest
from support import forked_commands
from support.front_doors.reviews import review_body
from support.front_doors.running import Door, open_door_process
from support.waiting import within

PATIENCE = 120.0
KEY = "k" * 64
LEAST = 256 * 1024
"""Bytes of the smallest file."""
LONG = {"username": "x" * MAX_TEXT_LENGTH}
SECRET = {"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "canary-1234"}}


def lines(*paths: Path) -> list[Any]:
    return [json.loads(line) for path in paths for line in path.read_bytes().splitlines()]


def answers(path: Path) -> list[Any]:
    return [line for line in lines(path) if line["kind"] in ("decision", "outage")]


def verified(*paths: Path, key: str | None = None) -> ChainReport:
    verifier = Verifier(None if key is None else key.encode())
    for path in paths:
        verifier.verify(path.name, path.read_bytes().splitlines(keepends=True))
    return verifier.report


def shown(door: Door, what: str) -> int:
    found = re.search(rf"^pratique_decision_log_{what} (\S+)$", door.get("/metrics").text, re.MULTILINE)
    return int(float(found[1])) if found else -1


def test_each_decision_has_a_line_with_the_request_and_the_answer(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    with open_door_process("PatchingEngine", decision_log=str(path), drain_seconds=0) as running:
        for asked in ("/admit", "/mutate", "/validate", "/explain"):
            assert running.door.post(asked, review_body(object=SECRET)).code == 200
        running.process.terminate()
        assert running.wait()[0] == 0
    found = answers(path)
    assert [line["path"] for line in found] == ["/admit", "/mutate", "/validate", "/explain"]
    assert found[0]["request"] == {
        "uid": "0df28fbd-5f5f-11e8-bc74-36e6bb280816",
        "operation": "CREATE",
        "version": "v1",
        "resource": "pods",
        "namespace": "default",
        "name": "one",
        "user": "admin",
    }
    assert found[0]["allowed"] is True
    assert found[0]["warnings"] == 1
    assert found[0]["patch"]["operations"] == 1
    assert re.fullmatch(r"127\.0\.0\.1:\d+", found[0]["caller"]["address"])
    assert b"canary" not in path.read_bytes()
    assert b"igest" not in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    report = verified(path)
    assert report.faults == []
    assert report.is_sealed


def test_objects_are_digested_only_with_a_key(tmp_path: Path) -> None:
    path, key = tmp_path / "decisions.jsonl", tmp_path / "key"
    key.write_text(KEY)
    settings: dict[str, Any] = {"decision_log": str(path), "decision_log_key": str(key), "drain_seconds": 0}
    with open_door_process("PatchingEngine", **settings) as running:
        for _ in range(2):
            running.door.post("/admit", review_body(object=SECRET))
        running.process.terminate()
        running.wait()
    first, other = answers(path)
    assert first["objectDigest"].startswith("hmac-sha256:")
    assert (first["objectDigest"], first["patch"]["digest"]) == (
        other["objectDigest"],
        other["patch"]["digest"],
    )
    assert verified(path, key=KEY).faults == []


@pytest.mark.parametrize(
    ("engine", "body", "query", "code"),
    [
        ("AllowingEngine", b"not JSON", "", 400),
        ("AllowingEngine", review_body(), "?timeout=abc", 400),
        ("SlowEngine", review_body(), "?timeout=100ms", 504),
        ("QuotingEngine", review_body(), "", 500),
    ],
)
def test_failures_without_a_decision_have_a_line_too(
    engine: str, body: bytes, query: str, code: int, tmp_path: Path
) -> None:
    path = tmp_path / "decisions.jsonl"
    with open_door_process(engine, decision_log=str(path), drain_seconds=0) as running:
        answer = running.door.post(f"/admit{query}", body)
        assert answer.code == code
        running.process.terminate()
        running.wait()
    (line,) = answers(path)
    assert (line["kind"], line["code"]) == ("outage", code)
    assert (line["reason"], line["message"]) == (answer.json["reason"], answer.json["message"])
    if code >= 500:
        assert line["request"]["uid"] == "0df28fbd-5f5f-11e8-bc74-36e6bb280816"


def test_a_line_names_the_caller_and_the_credential_and_unauthenticated_callers_have_none(
    tmp_path: Path,
) -> None:
    path, tokens, logins = (tmp_path / name for name in ("decisions.jsonl", "tokens", "logins"))
    tokens.write_text("secret-token\n")
    logins.write_text("ann:secret-password\n")
    files = {"token_file": str(tokens), "basic_auth_file": str(logins)}
    with open_door_process("AllowingEngine", decision_log=str(path), drain_seconds=0, **files) as running:
        basic = base64.b64encode(b"ann:secret-password").decode()
        for shown, code in (("Bearer secret-token", 200), (f"Basic {basic}", 200), ("Bearer other", 401)):
            headers = {"Content-Type": "application/json", "Authorization": shown}
            assert running.door.request("POST", "/admit", review_body(), headers).code == code
        running.process.terminate()
        running.wait()
    callers = [(line["caller"]["by"], line["caller"]["name"]) for line in answers(path)]
    assert callers == [("token", ""), ("basic", "ann")]
    assert b"secret-" not in path.read_bytes()


def test_long_names_are_truncated(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    with open_door_process("AllowingEngine", decision_log=str(path), drain_seconds=0) as running:
        running.door.post("/admit", review_body(userInfo={"username": "x" * 100_000}, name="\ud800" * 9))
        running.door.post("/admit", review_body(userInfo={"username": "x" * 100_000}))
        running.process.terminate()
        running.wait()
    assert max(map(len, path.read_bytes().splitlines())) < 8 * MAX_TEXT_LENGTH
    assert verified(path).faults == []


def test_each_concurrent_review_has_exactly_one_line(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    uids = [f"u{number}" for number in range(400)]
    with open_door_process("AllowingEngine", decision_log=str(path), drain_seconds=0) as running:
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            assert {
                item.code
                for item in pool.map(lambda uid: running.door.post("/admit", review_body(uid=uid)), uids)
            } == {200}
        assert within(PATIENCE, lambda: shown(running.door, "written_total") == 400)
        assert shown(running.door, "lost_total") == 0
        running.process.terminate()
        running.wait()
    assert sorted(line["request"]["uid"] for line in answers(path)) == sorted(uids)
    assert verified(path).faults == []


def _ask_until_it_ends(door: Door) -> None:
    with contextlib.suppress(OSError, http.client.HTTPException):
        while True:
            door.post("/admit")


def _kill_under_load(path: Path) -> None:
    with (
        concurrent.futures.ThreadPoolExecutor(4) as pool,
        open_door_process("AllowingEngine", decision_log=str(path)) as running,
    ):
        for _ in range(4):
            pool.submit(_ask_until_it_ends, running.door)
        assert within(PATIENCE, lambda: shown(running.door, "written_total") > 50)
        running.process.kill()


def test_a_front_door_killed_under_load_continues_the_chain(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    for _ in range(3):
        _kill_under_load(path)
    report = verified(path)
    assert report.faults == []
    assert report.decisions > 150
    assert [line["why"] for line in lines(path) if line["kind"] == "head"] == ["start", "restart", "restart"]


@pytest.mark.parametrize("left", [1, 20, 300])
def test_a_partial_line_is_truncated_and_recorded_at_the_next_start(left: int, tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    for number in range(2):
        with open_door_process("AllowingEngine", decision_log=str(path), drain_seconds=0) as running:
            running.door.post("/admit")
            running.process.terminate()
            running.wait()
        if not number:
            whole = path.read_bytes()
            path.write_bytes(whole + whole.splitlines()[1][:left])
    report = verified(path)
    assert (report.faults, report.repairs, report.decisions) == ([], 1, 2)
    assert [line.get("repairedBytes") for line in lines(path) if line["kind"] == "head"] == [None, left]


def test_a_front_door_killed_within_its_first_line_starts_again(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    path.write_bytes(b'{"sequence":1,"pre')
    with open_door_process("AllowingEngine", decision_log=str(path), drain_seconds=0) as running:
        running.process.terminate()
        running.wait()
    assert (verified(path).faults, verified(path).repairs) == ([], 1)


def test_files_are_rotated_and_each_starts_with_a_head(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    settings: dict[str, Any] = {
        "decision_log": str(path),
        "decision_log_max_bytes": LEAST,
        "drain_seconds": 0,
    }
    with open_door_process("AllowingEngine", **settings) as running:
        for number in range(400):
            running.door.post("/admit", review_body(uid=f"u{number}", userInfo=LONG))
        running.process.terminate()
        running.wait()
    files = sorted(tmp_path.iterdir(), key=lambda file: lines(file)[0]["sequence"])
    assert [file.name for file in files] == [
        *(f"decisions.jsonl.{number}" for number in range(len(files) - 1, 0, -1)),
        "decisions.jsonl",
    ]
    assert len(files) >= 3
    assert all(file.stat().st_size <= LEAST for file in files)
    report = verified(*files)
    assert (report.faults, report.decisions, report.first) == ([], 400, 1)
    assert verified(files[0], *files[2:]).faults != []


def test_the_oldest_of_a_bounded_number_of_files_is_deleted(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    limits = {"decision_log_max_bytes": LEAST, "decision_log_files": 2, "drain_seconds": 0}
    with open_door_process("AllowingEngine", decision_log=str(path), **limits) as running:
        for _ in range(400):
            running.door.post("/admit", review_body(userInfo=LONG))
        running.process.terminate()
        running.wait()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["decisions.jsonl", "decisions.jsonl.1"]
    report = verified(tmp_path / "decisions.jsonl.1", path)
    assert report.faults == []
    assert report.first > 1


def _lost_and_found(folder: Path, path: Path, door: Door) -> None:
    """Take the folder of a log away, have a review decided, and bring it back."""
    path.rename(folder.parent / "kept")
    folder.rmdir()
    door.post("/admit")
    assert within(PATIENCE, lambda: shown(door, "failing") == 1)


def test_reviews_are_answered_while_an_optional_log_cannot_be_written_and_the_gap_is_recorded(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    path = folder / "decisions.jsonl"
    with open_door_process("AllowingEngine", decision_log=str(path), drain_seconds=0) as running:
        door = running.door
        door.post("/admit")
        assert within(PATIENCE, lambda: shown(door, "written_total") == 1)
        _lost_and_found(folder, path, door)
        assert door.post("/admit").json["response"]["allowed"]
        assert door.get("/readyz").code == 200
        assert "decision-log ok, but: the decision log cannot be written" in door.get("/readyz?verbose").text
        assert within(PATIENCE, lambda: shown(door, "lost_total") == 2)
        folder.mkdir()
        assert within(PATIENCE, lambda: shown(door, "failing") == 0)
        assert door.post("/admit").code == 200
        running.process.terminate()
        code, logged = running.wait()
    assert code == 0
    reasons = [
        item["reason"] for item in logged if item["message"] == "entries of the decision log were lost"
    ]
    assert reasons[0] == "No such file or directory"
    report = verified(tmp_path / "kept", path)
    assert (report.faults, report.lost, report.decisions) == ([], 2, 2)


def test_reviews_are_refused_while_a_required_log_cannot_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    path = folder / "decisions.jsonl"
    settings: dict[str, Any] = {"decision_log": str(path), "decision_log_required": True, "drain_seconds": 0}
    with open_door_process("AllowingEngine", **settings) as running:
        door = running.door
        assert door.post("/admit").code == 200
        _lost_and_found(folder, path, door)
        answer = door.post("/admit")
        assert (answer.code, answer.json["reason"]) == (503, "ServiceUnavailable")
        assert "decision log cannot be written" in answer.json["message"]
        assert door.get("/readyz").code == 503
        folder.mkdir()
        assert within(PATIENCE, lambda: door.get("/readyz").code == 200)
        assert door.post("/admit").code == 200


def _ask_until(done: threading.Event, door: Door, name: str) -> list[tuple[str, int, bool]]:
    """Have reviews decided one after another: their uids, codes, and whether they were allowed."""
    found: list[tuple[str, int, bool]] = []
    while not done.is_set():
        uid = f"{name}-{len(found)}"
        answer = door.post("/admit", review_body(uid=uid))
        found.append((uid, answer.code, answer.code == 200 and answer.json["response"]["allowed"]))
    return found


@contextlib.contextmanager
def _callers(door: Door, answered: list[tuple[str, int, bool]]) -> Iterator[None]:
    """Have eight callers ask until the block ends, and collect what they are answered."""
    done = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        asking = [pool.submit(_ask_until, done, door, f"caller{number}") for number in range(8)]
        try:
            yield
        finally:
            done.set()
        for found in asking:
            answered += found.result()


def _fill_the_disk(door: Door, pid: int, path: Path) -> None:
    """Have some reviews logged, then let the file of the process have but a few more lines."""
    written = shown(door, "written_total")
    assert within(PATIENCE, lambda: shown(door, "written_total") > written + 20)
    hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (path.stat().st_size + 10_000, hard))
    assert within(PATIENCE, lambda: shown(door, "failing") == 1)


def test_nobody_is_admitted_without_a_line_where_a_required_log_fills_its_disk(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    settings: dict[str, Any] = {"decision_log": str(path), "decision_log_required": True, "drain_seconds": 0}
    answered: list[tuple[str, int, bool]] = []
    with open_door_process("AllowingEngine", **settings) as running:
        door, pid = running.door, running.process.pid
        unlimited = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        for _ in range(3):  # full, and with room again
            with _callers(door, answered):
                _fill_the_disk(door, pid, path)
            assert door.get("/readyz").code == 503
            resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
            assert within(PATIENCE, lambda: door.get("/readyz").code == 200)
        running.process.kill()  # what was answered is in the file already
    admitted = {uid for uid, _, allowed in answered if allowed}
    recorded = {line["request"]["uid"] for line in answers(path) if line.get("allowed")}
    assert {code for _, code, _ in answered} == {200, 503}
    assert admitted <= recorded
    report = verified(path)
    assert report.faults == []
    assert report.lost > 0


class Flushes(RotatedFile):
    """A file that waits before it is flushed, until it may, and may fail then."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, max_bytes=LEAST, files=0)
        self.begun = threading.Semaphore(0)
        self.allowed = threading.Semaphore(0)
        self.count = 0
        self.fails = False

    def sync(self) -> None:
        self.begun.release()
        assert self.allowed.acquire(timeout=PATIENCE)
        self.count += 1
        if self.fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync()


def required_log(file: Flushes) -> DecisionLog:
    return DecisionLog(
        file,
        HashChain(),
        EntryWriter(None, b"r" * 32, 1 << 20),
        ConfigurationDigest(()),
        required=True,
    )


def observed(number: int) -> Observation:
    seen = Observation("/admit", {"type": "http", "client": None, "state": {}})
    seen.received = decode_review(review_body(uid=f"u{number}"), ANY_NAMESPACE)
    seen.decision = Decision(uid=f"u{number}", allowed=True)
    seen.answered(200, b"")
    return seen


def test_reviews_that_wait_for_a_required_log_at_a_time_share_a_flush(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = Flushes(path)

    async def scenario() -> None:
        log = required_log(file)
        first = asyncio.ensure_future(log.confirm(observed(0)))
        await asyncio.to_thread(file.begun.acquire)
        others = [asyncio.ensure_future(log.confirm(observed(number))) for number in range(1, 51)]
        await asyncio.sleep(0)  # all of them are in the queue
        assert not first.done()  # though its line is in the file
        file.allowed.release()
        await first
        await asyncio.to_thread(file.begun.acquire)
        assert not any(other.done() for other in others)
        file.allowed.release()
        await asyncio.gather(*others)
        assert (file.count, len(answers(path))) == (2, 51)
        file.allowed.release()  # for the final seal
        await asyncio.to_thread(log.close)

    asyncio.run(scenario())
    assert verified(path).faults == []


def test_a_review_whose_entry_cannot_be_flushed_is_refused(tmp_path: Path) -> None:
    file = Flushes(tmp_path / "log")

    async def scenario() -> None:
        log = required_log(file)
        file.fails = True
        file.allowed.release(2)  # for the entry, and to see whether the disk is well again
        with pytest.raises(RequestError, match="its decision log cannot be written") as refused:
            await log.confirm(observed(0))
        assert refused.value.status.code == 503
        file.fails = False
        file.allowed.release(100)
        assert within(PATIENCE, lambda: not log.failing)
        await log.confirm(observed(1))
        await asyncio.to_thread(log.close)

    asyncio.run(scenario())


def _start(path: Path, **settings: Any) -> tuple[int, str]:
    given = json.dumps({"decision_log": str(path), **settings})
    command = [sys.executable, "-m", "support.front_doors.process", "AllowingEngine", given]
    ran = forked_commands.run(command, cwd=Path(__file__).parents[2])
    return ran.returncode, ran.stderr


def test_a_log_that_another_process_writes_to_is_refused_at_start(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    with open_door_process("AllowingEngine", decision_log=str(path)):
        code, said = _start(path)
    assert code != 0
    assert f"--decision-log {path}: another process writes to it" in said


@pytest.mark.parametrize("content", ["hello\n", "hello", '{"sequence":1}\n'])
def test_a_file_that_is_not_a_decision_log_is_refused_and_left_unchanged(
    content: str, tmp_path: Path
) -> None:
    path = tmp_path / "decisions.jsonl"
    path.write_text(content)
    code, said = _start(path)
    assert code != 0
    assert "name another file" in said
    assert path.read_text() == content


def test_a_file_size_too_small_for_an_entry_is_refused_at_start(tmp_path: Path) -> None:
    code, said = _start(tmp_path / "log", decision_log_max_bytes=1000)
    assert code != 0
    assert f"--decision-log-max-bytes 1000: is less than {LEAST}" in said


def test_a_full_disk_is_reported_at_start() -> None:
    code, said = _start(Path("/dev/full"))
    assert code != 0
    assert "--decision-log /dev/full: cannot be written to: No space left on device" in said
