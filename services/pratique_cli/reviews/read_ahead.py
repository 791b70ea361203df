"""Reading YAML ahead in other processes, so that this one only decides.

Reviews depend on each other: later ones see the objects and the quotas of earlier ones. Reading does not, so it may
happen elsewhere, as long as its results come in the order of the input. The inputs themselves are opened and divided
here; what other processes do is only to read the documents of YAML texts. If one of them ends, nothing is lost but
time, because the texts are still here.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

import msgspec

from pratique.apimachinery.source_documents import STDIN
from pratique_cli.reviews.inputs import Part, PartValues, parts_of

if TYPE_CHECKING:
    import subprocess  # a short input starts no process

    from pratique.apimachinery.documents import YamlValues
    from pratique.processes.yaml_process import YamlReading

PROCESS_MODULE = "pratique.processes.yaml_process"
WINDOW_BYTES = 1024 * 1024
"""How much text is held ahead of the review: 800 manifests, or 100 ms of reading."""
START_BYTES = WINDOW_BYTES // 2
"""How much YAML must be at hand before a process is started. Starting one takes 100 ms on another core."""
_LATE_BYTES = WINDOW_BYTES // 4
"""How much is left to this process if the first other one starts in the midst of a run: what it gets through until that
one is ready."""
_BATCH_BYTES = 64 * 1024
"""Texts up to this size are sent together, so that system calls do not count: 6 ms of reading."""
_BATCH_SECONDS = 30.0
"""For one batch. A process that needs longer hangs, or its text takes as long anywhere."""
MOST_JOBS = 64
"""The most processes that can be asked for, which no input keeps busy."""
_MOST_JOBS_BY_DEFAULT = 4
"""One process that reads keeps up with all but the largest manifests; others start only when needed."""


def default_jobs() -> int:
    """The number of processes to use: one for each core that this process may use, up to four."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return min(cores, _MOST_JOBS_BY_DEFAULT)


class _YamlProcess:
    """A process that reads YAML, and the connection to it."""

    def __init__(self) -> None:
        from pratique.processes.subprocesses import start_child  # noqa: PLC0415 - a short input needs none of it

        self.connection, child_socket = socket.socketpair()
        with child_socket:
            self._process: subprocess.Popen[bytes] = start_child(PROCESS_MODULE, child_socket.fileno())
        self.connection.settimeout(_BATCH_SECONDS)
        self.pending = 0
        """How many batches it has yet to answer."""
        self.has_answered = False

    def send(self, texts: list[bytes]) -> None:
        from pratique.processes.yaml_process import send_texts  # noqa: PLC0415 - as above

        send_texts(self.connection, texts)
        self.pending += 1

    def receive(self) -> Iterator[YamlReading | None]:
        from pratique.processes.yaml_process import receive_readings  # noqa: PLC0415 - as above

        readings = receive_readings(self.connection)
        self.pending -= 1
        self.has_answered = True
        return iter(readings)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_late(self) -> bool:
        """Whether it was started long ago, and its next result is not there yet."""
        return self.has_answered and not select.select([self.connection], [], [], 0)[0]

    def end(self) -> None:
        from pratique.processes.subprocesses import end_child  # noqa: PLC0415 - as above

        self.connection.close()
        end_child(self._process)
        self._process.wait()
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()


class _Batch(msgspec.Struct, eq=False):
    """YAML texts that are read together."""

    texts: list[bytes] = msgspec.field(default_factory=list)
    size: int = 0
    process: _YamlProcess | None = None
    """The process that it was sent to; None if this process reads it."""
    readings: Iterator[YamlReading | None] | None = None
    """What the texts that are left hold, once that has been received."""


class ReadAhead:
    """Yields the parts of inputs in order, with what their YAML holds if another process has read it.

    Use it in a ``with`` statement, which ends the processes.
    """

    def __init__(
        self,
        paths: Iterable[Path | str],
        jobs: int,
        report_problem: Callable[[str], None],
        stdin: BinaryIO | None = None,
        stdin_name: str = STDIN,
        *,
        excluded: Sequence[str] = (),
    ) -> None:
        """Open nothing yet.

        Args:
            paths: What to read: files, folders, or ``-``.
            jobs: How many processes to use, this one included; 1 starts none.
            report_problem: Gets a line if another process fails.
            stdin: Read instead of this process's standard input.
            stdin_name: The file that standard input is taken for.
            excluded: Patterns of what to leave out of folders.
        """
        self._parts = parts_of(paths, stdin, stdin_name, excluded)
        self._most_processes = jobs - 1
        self._report_problem = report_problem
        self._window: deque[tuple[Part, _Batch | None]] = deque()
        self._window_bytes = 0
        self._may_block = False
        """Whether the next part may have to be waited for."""
        self._batch = _Batch()
        """The one that is being filled."""
        self._unsent: list[_Batch] = []
        self._processes: list[_YamlProcess] = []

    def __enter__(self) -> Self:
        """Begin to read what can be had without waiting."""
        if self._most_processes > 0:
            self._fill(0)
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes."""
        self._end_processes()

    def __iter__(self) -> Iterator[PartValues]:
        """Yield every part once, in order."""
        if self._most_processes <= 0:
            yield from ((part, None) for part in self._parts)
            return
        while True:
            if not self._window:
                self._may_block = False
            self._fill(_LATE_BYTES)
            if not self._window:
                return
            part, batch = self._window.popleft()
            self._window_bytes -= len(part.text.raw)
            yield part, None if batch is None else self._values(batch)

    @property
    def process_ids(self) -> list[int]:
        """The ids of the other processes that are running."""
        return [process.pid for process in self._processes]

    def _fill(self, late_bytes: int) -> None:
        """Hold as many parts as the window takes, and have their YAML read."""
        while not self._may_block and self._window_bytes < WINDOW_BYTES:
            part = next(self._parts, None)
            self._may_block = part is None or part.may_block
            if part is not None:
                self._window_bytes += len(part.text.raw)
                self._window.append((part, self._add(part) if part.is_yaml else None))
        if self._may_block:
            self._close_batch()
        if not self._processes and sum(batch.size for batch in self._unsent) >= START_BYTES:
            while late_bytes > 0 and self._unsent:
                late_bytes -= self._unsent.pop(0).size
            self._start_process()
        if self._processes:
            self._send()

    def _add(self, part: Part) -> _Batch:
        """Add the text of a part to the batch that is being filled."""
        batch = self._batch
        batch.texts.append(part.text.raw)
        batch.size += len(part.text.raw)
        if batch.size >= _BATCH_BYTES:
            self._close_batch()
        return batch

    def _close_batch(self) -> None:
        if self._batch.texts:
            self._unsent.append(self._batch)
            self._batch = _Batch()

    def _send(self) -> None:
        batches, self._unsent = self._unsent, []
        with self._falling_back():
            for batch in batches:
                process = min(self._processes, key=lambda process: process.pending)
                process.send(batch.texts)
                batch.process = process
                batch.texts = []

    def _values(self, batch: _Batch) -> YamlValues | None:
        """What the next text of a batch holds; None if this process has to read it."""
        process = batch.process
        if process is not None:
            if batch.readings is None and process in self._processes:
                self._receive(batch, process)
        elif batch is self._batch:
            self._batch = _Batch()
        elif batch in self._unsent:
            self._unsent.remove(batch)
        reading = None if batch.readings is None else next(batch.readings, None)
        return None if reading is None else reading.documents()

    def _receive(self, batch: _Batch, process: _YamlProcess) -> None:
        if process.is_late and len(self._processes) < self._most_processes:
            self._start_process()
        with self._falling_back():
            batch.readings = process.receive()

    def _start_process(self) -> None:
        with self._falling_back():
            self._processes.append(_YamlProcess())

    @contextlib.contextmanager
    def _falling_back(self) -> Iterator[None]:
        """Go on without other processes if one of them fails."""
        try:
            yield
        except (EOFError, OSError, ValueError):  # msgspec's errors are ValueErrors
            self._end_processes()
            self._most_processes = 0
            self._report_problem("a process that reads ahead failed; this one reads the rest itself")

    def _end_processes(self) -> None:
        for process in self._processes:
            process.end()
        self._processes.clear()
