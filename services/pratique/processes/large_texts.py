"""The service's side of reading large JSON texts in a process of their own.

In the service itself, reading 7 MiB would hold the interpreter lock for milliseconds at a time, and for 120 ms for an
object with 300,000 members. All other reviews would wait.
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
from pratique.processes.large_text_process import MemberSelection, StrippedText, TextResult, request_text
from pratique.processes.subprocesses import end_child, start_child

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger(__name__)

_MODULE = "pratique.processes.large_text_process"
SEPARATE_PROCESS_BYTES = 512 * 1024
"""Longer texts go to the other process. A shorter one, half of a ConfigMap's limit, is parsed in a thread: that holds
the lock for 4 ms at most, and the parsed data is of use to whoever looks at the object."""

_TEXT_TIMEOUT_SECONDS = 30.0
"""For one text. The worst takes a second, and no review has more than 30 seconds."""
_ATTEMPTS = 2
"""A process that somebody killed is replaced. A text that ends two processes is given up."""


class ReaderProcessError(PratiqueError):
    """The process that was to read a text ended while it did, and so did its replacement."""


class LargeTextReader:
    """Has large texts read one after another. Its process starts with the first text, and ends with this object."""

    def __init__(self) -> None:
        """Start no process yet."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="large-texts")
        self._lock = threading.Lock()
        self._process: _ReaderProcess | None = None
        self._end: Callable[[], object] = lambda: None

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that reads texts with this reader, in the thread reserved for that."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: work(*args, **kwargs))

    def read_document(self, raw: bytes) -> Document:
        """Make a document of a text, as :func:`pratique.apimachinery.json_reading.read_document` does.

        Raises:
            ReaderProcessError: it could not be read.
            JsonLimitError: the text exceeds a limit.
            msgspec.DecodeError: it is not JSON.
            UnicodeDecodeError: it is not UTF-8; for a large text this is a ``DecodeError`` too.
        """
        if len(raw) <= SEPARATE_PROCESS_BYTES:
            return read_document(raw)
        self._read([raw], None).check()
        return Document.from_raw(raw)

    def strip_members(self, pieces: Sequence[bytes], selection: MemberSelection) -> StrippedText | None:
        """Check a text that comes in pieces, and strip members; None if their parent is missing.

        Raises:
            Exception: as :meth:`read_document`.
        """
        return self._read(pieces, selection).check().stripped

    def _read(self, pieces: Sequence[bytes], selection: MemberSelection | None) -> TextResult:
        for _ in range(_ATTEMPTS):
            with self._lock, contextlib.suppress(EOFError, OSError):
                return self._read_once(pieces, selection)
        raise ReaderProcessError("the process that reads large texts ended over this one")

    def _read_once(self, pieces: Sequence[bytes], selection: MemberSelection | None) -> TextResult:
        try:
            return request_text(self._running_process().connection, pieces, selection)
        except BaseException as error:
            # Whatever the error, an answer still under way must not be taken for that to the next text.
            self._end()
            self._process = None
            reason = type(error).__name__
            _log.warning("the process that reads large texts was ended", extra={"reason": reason})
            raise

    def _running_process(self) -> _ReaderProcess:
        if self._process is None:
            self._process = _ReaderProcess()
            # The finalizer must not reference this reader, which would keep it alive.
            self._end = weakref.finalize(self, self._process.end)
        return self._process


class _ReaderProcess:
    """The process that reads, and the connection to it."""

    def __init__(self) -> None:
        self.connection, child_socket = socket.socketpair()
        with child_socket:
            self._process = start_child(_MODULE, child_socket.fileno())
        self.connection.settimeout(_TEXT_TIMEOUT_SECONDS)

    def end(self) -> None:
        self.connection.close()
        end_child(self._process)
        self._process.wait()
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
