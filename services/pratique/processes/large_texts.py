"""Readers: how a service has large texts read by a process of its own.

In the service's own process, reading 7 MiB would hold the interpreter's lock for milliseconds at a time, and for 120
where an object has 300,000 members. Reviews of others would wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from pratique.apimachinery.errors import PratiqueError
from pratique.apimachinery.json_reading import read_document
from pratique.apimachinery.json_values import Document
from pratique.processes.large_text_process import (
    MemberSelection,
    StrippedText,
    TextRequest,
    TextResult,
    receive,
    send,
)
from pratique.processes.subprocesses import end_child, start_child

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger(__name__)

_MODULE = "pratique.processes.large_text_process"
SEPARATE_PROCESS_BYTES = 512 * 1024
"""From here on a text is worth the way to another process. A shorter one, half of a ConfigMap's limit, is parsed in a
thread: that holds the lock for 4 ms at most, and what comes of it is of use to whoever looks at the object."""

_TEXT_TIMEOUT_SECONDS = 30.0
"""For one text. The worst takes one second; no review has more than 30."""
_ATTEMPTS = 2
"""A process that somebody has killed is replaced. A text over which two of them end is not read."""


class ReaderProcessError(PratiqueError):
    """The process that was to read a text has ended over it, and so has another."""


class LargeTextReader:
    """Has large texts read, one after another. Its process starts with the first, and ends with this object."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="large-texts")
        self._lock = threading.Lock()
        self._process: _ReaderProcess | None = None
        self._end: Callable[[], object] = lambda: None

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call something that reads texts by this reader, in a thread that is there for nothing else."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: work(*args, **kwargs))

    def read_document(self, raw: bytes) -> Document:
        """Make a document of a text, as :func:`pratique.apimachinery.json_reading.read_document` does.

        Raises:
            ReaderEndedError: it could not be read.
            JsonLimitError: the text is beyond a limit.
            msgspec.DecodeError: it is no JSON.
            UnicodeDecodeError: it is no UTF-8; where it is large, this is a ``DecodeError`` as well.
        """
        if len(raw) <= SEPARATE_PROCESS_BYTES:
            return read_document(raw)
        self._read([raw], None).check()
        return Document.from_raw(raw)

    def cut_out(self, pieces: Sequence[bytes], cut: MemberSelection) -> StrippedText | None:
        """Check a text that came in pieces, and take values out of it; None where they are not there.

        Raises:
            Exception: as :meth:`read_document`.
        """
        return self._read(pieces, cut).check().remainder

    def _read(self, pieces: Sequence[bytes], cut: MemberSelection | None) -> TextResult:
        for _ in range(_ATTEMPTS):
            with self._lock, contextlib.suppress(EOFError, OSError):
                return self._read_once(pieces, cut)
        raise ReaderProcessError("the process that reads large texts ended over this one")

    def _read_once(self, pieces: Sequence[bytes], cut: MemberSelection | None) -> TextResult:
        try:
            return self._started().read(pieces, cut)
        except BaseException as error:
            # Whatever it was, nobody may take what is still under way for the reading of the next text.
            self._end()
            self._process = None
            reason = type(error).__name__
            _log.warning("the process that reads large texts was ended", extra={"reason": reason})
            raise

    def _started(self) -> _ReaderProcess:
        if self._process is None:
            self._process = _ReaderProcess()
            self._end = weakref.finalize(self, self._process.end)
        return self._process


class _ReaderProcess:
    """A process that reads, and the connection to it."""

    def __init__(self) -> None:
        self._connection, there = socket.socketpair()
        with there:
            self._process = start_child(_MODULE, there.fileno())
        self._connection.settimeout(_TEXT_TIMEOUT_SECONDS)

    def read(self, pieces: Sequence[bytes], cut: MemberSelection | None) -> TextResult:
        send(self._connection, TextRequest(sum(map(len, pieces)), cut))
        for piece in pieces:
            self._connection.sendall(piece)
        return receive(self._connection, TextResult)

    def end(self) -> None:
        self._connection.close()
        end_child(self._process)
        self._process.wait()
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
