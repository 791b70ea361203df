"""Rotated files: lines are appended to a file, which is renamed and replaced when it is full.

``logging.handlers.RotatingFileHandler`` does this for logs, but it creates files that everybody can read, writes a line
in two parts, and does not notice that its file was deleted.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from pathlib import Path

_MODE = 0o600
_OPEN_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
"""Readable, to check how the file ends; and non-blocking, in case it is a pipe."""


class RotatedFile:
    """The newest of several files that together hold the last lines; ``FILE.1`` is the previous one, and so on."""

    def __init__(self, path: Path, *, max_bytes: int, files: int, alone: bool = False) -> None:
        """Open or create the file, readable only by its owner.

        Args:
            path: The newest file. Existing lines are kept.
            max_bytes: The maximum size of a file.
            files: The maximum number of files, including the newest; 0 is no limit.
            alone: Lock the file; another writer with this flag gets BlockingIOError.

        Raises:
            OSError: it cannot be written to.
        """
        self._alone = alone
        self._path = path
        self._max_bytes = max_bytes
        self._files = files
        self._descriptor = -1
        self._torn = self._has_new_name = False
        self._open()

    def append(self, line: bytes) -> None:
        """Write a line, which ends with a newline, completely or not at all.

        Raises:
            OSError: it could not be written. Later lines may succeed.
        """
        if len(line) > self._max_bytes:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        try:
            self.follow()
            if self.is_full(len(line)):
                self.rotate()
            self._write(line)
        except OSError:
            self.close()
            raise

    def is_full(self, size: int) -> bool:
        """Return whether this file has no room for ``size`` more bytes."""
        return self._is_regular and self._size + size > self._max_bytes

    @property
    def is_empty(self) -> bool:
        """Whether the file is empty; never true for something other than a regular file."""
        return self._is_regular and not self._size

    def sync(self) -> None:
        """Flush written lines to disk, and the name of a new file.

        Raises:
            OSError: the flush failed.
        """
        if self._descriptor < 0 or not self._is_regular:
            return
        os.fdatasync(self._descriptor)
        if self._has_new_name:
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
            self._has_new_name = False

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> None:
        self._descriptor = os.open(self._path, _OPEN_FLAGS, _MODE)
        if self._alone:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        state = os.fstat(self._descriptor)
        self._is_regular = stat.S_ISREG(state.st_mode)
        self._identity = (state.st_dev, state.st_ino)
        self._torn = False
        self._has_new_name = True
        if not self._is_regular:
            return
        if stat.S_IMODE(state.st_mode) != _MODE:
            with contextlib.suppress(PermissionError):  # another user's file that we may write to
                os.fchmod(self._descriptor, _MODE)
        # A killed writer may have left a partial line. It is terminated with the next line: the disk may be full now.
        self._torn = bool(state.st_size) and os.pread(self._descriptor, 1, state.st_size - 1) != b"\n"

    def follow(self) -> None:
        """Reopen the file if its path now leads to another file, or to none.

        Raises:
            OSError: it cannot be written to.
        """
        if self._descriptor >= 0:
            with contextlib.suppress(FileNotFoundError):
                state = self._path.stat()
                if (state.st_dev, state.st_ino) == self._identity:
                    return
            try:
                self.sync()  # nobody flushes it later
            finally:
                self.close()
        self._open()

    @property
    def _size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def rotate(self) -> None:
        """Continue in a new file, and delete the oldest if there are too many.

        Raises:
            OSError: it cannot be written to.
        """
        self.close()
        for number in range((self._files or self._count() + 1) - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                self._numbered(number - 1).replace(self._numbered(number))
        if self._files == 1:
            self._path.unlink(missing_ok=True)
        self._open()

    def _count(self) -> int:
        """Return the number of consecutive files."""
        number = 0
        while self._numbered(number).exists():
            number += 1
        return number

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path

    def _write(self, line: bytes) -> None:
        before = self._size if self._is_regular else 0
        rest = memoryview(b"\n" + line if self._torn else line)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            if self._is_regular:
                os.ftruncate(self._descriptor, before)
            raise
        self._torn = False
