"""Reading large texts in a process of their own."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from pratique.apimachinery.json_reading import JsonLimitError, read_document
from pratique.apimachinery.json_values import Document
from pratique.processes import large_texts
from pratique.processes.large_text_process import MemberSelection
from pratique.processes.large_texts import SEPARATE_PROCESS_BYTES, LargeTextReader, ReaderProcessError
from support.hostile_json import HARMLESS, HOSTILE
from support.waiting import within

ROOM = b" " * SEPARATE_PROCESS_BYTES
"""Appended to a text it makes it large, and shifts nothing."""
LARGE = b'{"a":1}' + ROOM


def processes() -> set[int]:
    """The reader processes of this process, after collecting those that other tests left behind."""
    gc.collect()
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    pids = {int(pid) for file in children for pid in file.read_text().split()}
    return {pid for pid in pids if b"large_text_process" in Path(f"/proc/{pid}/cmdline").read_bytes()}


def started(reader: LargeTextReader) -> int:
    """Have a text read, and return the pid of the process that read it."""
    before = processes()
    reader.read_document(LARGE)
    (pid,) = processes() - before
    return pid


def test_a_small_text_starts_no_process() -> None:
    before, reader = processes(), LargeTextReader()
    assert reader.read_document(b'{"a":1}') == Document.from_raw(b'{"a":1}')
    assert processes() == before


def test_one_process_reads_all_texts() -> None:
    reader = LargeTextReader()
    pid = started(reader)
    assert all(reader.read_document(LARGE).data == {"a": 1} for _ in range(3))
    assert pid in processes()


def complaint(reader: LargeTextReader, raw: bytes) -> str:
    try:
        reader.read_document(raw)
    except JsonLimitError as error:
        return str(error)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "is not JSON"
    return ""


@pytest.fixture(name="reader", scope="module")
def _reader() -> LargeTextReader:
    return LargeTextReader()


@pytest.mark.parametrize(("raw", "problem"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_text_is_refused_with_reason_and_position(
    reader: LargeTextReader, raw: bytes, problem: str
) -> None:
    assert complaint(reader, raw + ROOM) == problem


@pytest.mark.parametrize("raw", HARMLESS.values(), ids=HARMLESS)
def test_a_text_that_only_looks_hostile_is_read(reader: LargeTextReader, raw: bytes) -> None:
    assert reader.read_document(raw + ROOM).data == read_document(raw).data


def test_a_text_in_pieces_is_stripped(reader: LargeTextReader) -> None:
    stripped = reader.strip_members(
        [b'{"request":{"obj', b'ect":{"a":1}}}'], MemberSelection("request", ("object",))
    )
    assert stripped is not None
    assert stripped.spans == {"object": (21, 28)}


def test_a_killed_process_is_replaced() -> None:
    reader = LargeTextReader()
    os.kill(started(reader), signal.SIGKILL)
    assert reader.read_document(LARGE).data == {"a": 1}


def test_a_text_that_kills_two_processes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_texts, "_MODULE", "pratique.nowhere")
    with pytest.raises(ReaderProcessError, match="ended over this one"):
        LargeTextReader().read_document(LARGE)


def test_an_interrupted_answer_is_not_taken_for_the_next_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken_off(*_: object) -> None:
        raise MemoryError

    reader = LargeTextReader()
    monkeypatch.setattr(large_texts, "request_text", broken_off)
    with pytest.raises(MemoryError):
        reader.read_document(LARGE)
    monkeypatch.undo()
    with pytest.raises(msgspec.DecodeError):
        reader.read_document(b"{" + ROOM)


def test_many_threads_may_read_at_once() -> None:
    reader = LargeTextReader()
    good, bad = LARGE, b"{" + ROOM

    def ask(raw: bytes) -> str:
        return complaint(reader, raw)

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(ask, [good, bad] * 20)) == ["", "is not JSON"] * 20


def test_the_process_ends_with_its_reader() -> None:
    reader = LargeTextReader()
    pid = started(reader)
    del reader
    assert pid not in processes()


def test_the_process_ends_with_the_service_even_when_killed() -> None:
    script = (
        "import pathlib, time\n"
        "from pratique.processes.large_texts import LargeTextReader\n"
        f"reader = LargeTextReader(); reader.read_document(b'1' + b' ' * {SEPARATE_PROCESS_BYTES})\n"
        "print(*[file.read_text() for file in pathlib.Path('/proc/self/task').glob('*/children')], flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        pid = int(service.stdout.readline().strip())
        service.kill()
    assert within(120, lambda: not Path(f"/proc/{pid}").exists())


def test_the_event_loop_runs_while_a_large_text_is_read() -> None:
    reader, let_go = LargeTextReader(), threading.Event()

    async def run() -> bool:
        reading = asyncio.ensure_future(reader.run(let_go.wait, 20))
        await asyncio.sleep(0)
        let_go.set()
        return await reading

    assert asyncio.run(run())
