"""Recorders: what writes a recording beside the reviews, and never in their way.

A review costs one entry in a queue. A thread of its own redacts, encodes and writes. Where it cannot keep up, or the
disk cannot be written to, lines are dropped and counted; no review waits, and none fails.
"""

from __future__ import annotations

import logging
import os
import queue
import secrets
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from frontdoor.recordings.configuration_digests import ConfigurationDigest
from frontdoor.recordings.files import RotatedFile
from frontdoor.recordings.lines import Entry, LineWriter
from pratique.errors import ConfigurationError

if TYPE_CHECKING:
    from frontdoor.codecs import ReceivedReview
    from frontdoor.decisions import Decision
    from frontdoor.settings import FrontDoorSettings
    from pratique.definitions import Phase

_log = logging.getLogger(__name__)

_WAITING = 1024
"""Entries that wait: those of a second at a thousand reviews a second."""
_WAITING_BYTES = 32 * 1024 * 1024
"""Objects that wait, as they came: half of what is held of reviews under way."""
_DRAIN_SECONDS = 5.0
"""How long the last lines may take: what waits is written in one second, unless the disk hangs."""
_BETWEEN_COMPLAINTS_SECONDS = 60.0


class Recorder:
    """Writes what was decided to a file, in a thread of its own."""

    def __init__(self, file: RotatedFile, lines: LineWriter, configuration: ConfigurationDigest) -> None:
        """Begin to write; :meth:`close` ends it."""
        self._file = file
        self._lines = lines
        self._configuration = configuration
        self._entries: queue.SimpleQueue[Entry | None] = queue.SimpleQueue()
        # Each of these has one thread that writes it, so that none needs a lock.
        self._taken_bytes = self._done_bytes = 0
        self._refused = self._failed = 0
        self._written = self._told = 0
        self._reason = ""
        self._tell_at = float("-inf")
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    @property
    def written(self) -> int:
        """Lines that were written."""
        return self._written

    @property
    def dropped(self) -> int:
        """Lines that were not: there was no room to wait, or they could not be written."""
        return self._refused + self._failed

    def record(
        self, path: str, phases: frozenset[Phase], received: ReceivedReview, decision: Decision
    ) -> None:
        """Take what was decided, to write it later. Never waits, never fails."""
        if self._entries.qsize() >= _WAITING or self._taken_bytes - self._done_bytes > _WAITING_BYTES:
            self._refused += 1
            return
        entry = Entry(time.time(), path, phases, received, decision)
        self._taken_bytes += entry.size
        self._entries.put(entry)

    def close(self, seconds: float = _DRAIN_SECONDS) -> None:
        """Write what still waits, for so long at most. Nothing may be recorded any more."""
        self._entries.put(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            _log.warning(
                "recording not complete", extra={"count": self._entries.qsize(), "reason": "the disk hangs"}
            )

    def _run(self) -> None:
        while (entry := self._entries.get()) is not None:
            self._write(entry)
            self._done_bytes += entry.size
            self._complain(time.monotonic())
            del entry  # not to hold a review while waiting for another
        self._complain(float("inf"))
        self._file.close()

    def _write(self, entry: Entry) -> None:
        try:
            self._file.append(self._lines.write(entry, self._configuration.current))
        except OSError as error:
            self._fail(os.strerror(error.errno) if error.errno else "it cannot be written")
        except Exception as error:  # noqa: BLE001 - whatever it is, the next line is to be written
            self._fail(type(error).__name__)
        else:
            self._written += 1

    def _fail(self, reason: str) -> None:
        self._failed += 1
        self._reason = reason

    def _complain(self, now: float) -> None:
        """Tell once in a while how many lines were dropped, and why the last was."""
        dropped = self.dropped
        if dropped == self._told or now < self._tell_at:
            return
        reason = self._reason or "more came than could be written"
        _log.warning(
            "lines of the recording dropped", extra={"count": dropped - self._told, "reason": reason}
        )
        self._told, self._reason = dropped, ""
        self._tell_at = now + _BETWEEN_COMPLAINTS_SECONDS


def open_recorder(settings: FrontDoorSettings) -> Recorder | None:
    """Make what the settings ask for; None where nothing is to be recorded.

    Raises:
        ConfigurationError: the file cannot be written to, or not one review would have room.
    """
    if settings.record is None:
        return None
    path = Path(settings.record)
    try:
        file = RotatedFile(path, max_bytes=settings.record_max_bytes, files=settings.record_files)
    except OSError as error:
        raise ConfigurationError(f"--record {path}: cannot be written to: {error.strerror}") from None
    lines = LineWriter(secrets.token_bytes(32), settings.record_max_review_bytes)
    return Recorder(file, lines, ConfigurationDigest(settings.chain.config))
