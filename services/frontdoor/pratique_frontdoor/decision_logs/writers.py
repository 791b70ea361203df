"""Writes the decision log in a separate thread, and reports its gaps.

A request costs one entry in a queue. If the thread cannot keep up, or the disk cannot be written to, entries are lost
and counted, and the chain records how many as soon as it can be written again: no loss is silent. If the log is
required, a review waits until its entry is on the disk; all entries that wait at a time share one flush.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import secrets
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pratique.apimachinery import statuses
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_reading import LARGE_BYTES
from pratique.configuration.key_files import read_key
from pratique_frontdoor.decision_logs.entries import EntryWriter, Observation, audit_time
from pratique_frontdoor.decision_logs.hash_chains import VERSION, HashChain, last_link
from pratique_frontdoor.http.messages import RequestError
from pratique_frontdoor.recording.files import RotatedFile
from pratique_frontdoor.recording.recorders import ConfigurationDigest
from pratique_frontdoor.settings import FrontDoorSettings

if TYPE_CHECKING:
    from starlette.types import Scope

_log = logging.getLogger(__name__)

_MAX_WAITING = 4096
"""Entries that may wait: four seconds of them at a thousand reviews per second, for a disk that hangs briefly."""
_MAX_WAITING_BYTES = 32 * 1024 * 1024
"""Bytes of objects that may wait, as received: half of the limit for reviews in flight."""
_MAX_BATCH = 256
"""Entries that are written before they are flushed together: what 256 reviews at a time wait for is one flush."""
_DRAIN_SECONDS = 5.0
"""How long the last entries may take."""
_SEAL_ENTRIES = 1000
"""Entries after which a seal is written and flushed: the most that a machine that crashes can lose."""
_SEAL_SECONDS = 60.0
"""Seconds after which a seal is written, if there are new entries."""
_TICK_SECONDS = 1.0
"""How often to check whether a seal is due, or the disk can be written to again."""
_SEAL_BYTES = 1024
"""Room for a seal at the end of a file."""
_MIN_FILE_BYTES = 256 * 1024
"""Bytes: twice the longest line, which has a dozen texts of 1,024 characters, 6 bytes each when escaped, and 100
names of denying controllers, in 600 bytes each."""
_LOG_INTERVAL_SECONDS = 60.0


class DecisionLog:
    """Writes responses to a chained file, in its own thread."""

    def __init__(
        self,
        file: RotatedFile,
        chain: HashChain,
        entries: EntryWriter,
        configuration: ConfigurationDigest,
        *,
        required: bool = False,
        repaired: int = 0,
    ) -> None:
        """Start to write; :meth:`close` ends it.

        Args:
            file: The file.
            chain: The end of its chain.
            entries: Creates the entries.
            configuration: The digest of the current configuration.
            required: Whether to refuse reviews whose entries cannot be written.
            repaired: Bytes of a partial entry that were removed from the file.

        Raises:
            OSError: the file cannot be written to.
        """
        self._file, self._chain, self._entries = file, chain, entries
        self._configuration = configuration
        self.required = required
        self._queue: queue.SimpleQueue[Observation | None] = queue.SimpleQueue()
        # Only one thread writes each of these, so none needs a lock.
        self._taken_bytes = self._done_bytes = 0
        self._refused = self._failed = 0
        self._recorded_lost = self._written = 0
        self._reason, self._reported, self._next_log_at = "", 0, float("-inf")
        self._unsealed, self._sealed_at = 0, time.monotonic()
        self._head("restart" if chain.sequence else "start", repaired)
        self._thread = threading.Thread(target=self._run, name="decision log", daemon=True)
        self._thread.start()

    # Called in the event loop

    def begin(self, path: str, scope: Scope) -> Observation:
        """Start to observe a request."""
        return Observation(path, scope)

    def check(self) -> None:
        """Refuse a review that could not be logged, if the log is required.

        Raises:
            RequestError: it is refused (503).
        """
        if self.required and self.failing:
            raise _unwritable()

    async def confirm(self, observation: Observation) -> None:
        """Wait until a decision is on the disk, if the log is required; it may be answered then.

        Raises:
            RequestError: it is refused (503), because it could not be written.
        """
        if not self.required:
            return
        if observation.size > LARGE_BYTES:
            # Searching a large object for secrets must not delay the entries of others.
            members, current = self._entries.members, self._configuration.current
            observation.members = await asyncio.to_thread(members, observation, current)
        observation.confirmation = asyncio.get_running_loop().create_future()
        self.take(observation)
        if not await observation.confirmation:
            raise _unwritable()

    def take(self, observation: Observation) -> None:
        """Queue a response for writing. Never waits, never fails."""
        if self._queue.qsize() >= _MAX_WAITING:
            self._refused += 1
            if observation.confirmation is not None:
                observation.confirmation.set_result(False)
            return
        if self._taken_bytes - self._done_bytes > _MAX_WAITING_BYTES:
            # Otherwise a client with many large objects could decide what is not logged.
            observation.drop_objects()
        self._taken_bytes += observation.size
        self._queue.put(observation)

    @property
    def failing(self) -> str:
        """Why entries cannot be written now; empty if they can."""
        if self._reason:
            return self._reason
        return "more comes than can be written" if self._queue.qsize() >= _MAX_WAITING else ""

    @property
    def written(self) -> int:
        """The number of written decisions and outages."""
        return self._written

    @property
    def lost(self) -> int:
        """The number of lost ones."""
        return self._refused + self._failed

    @property
    def sequence(self) -> int:
        """The number of the last entry."""
        return self._chain.sequence

    def close(self, seconds: float = _DRAIN_SECONDS) -> None:
        """Write waiting entries, for at most ``seconds``, and the final seal."""
        self._queue.put(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            _log.warning(
                "the decision log is incomplete",
                extra={"count": self._queue.qsize(), "reason": "the disk hangs"},
            )

    # Called in the thread

    def _run(self) -> None:
        batch: list[Observation | None] = []
        while None not in batch:
            batch = self._next_batch()
            self._write_batch([observation for observation in batch if observation is not None])
            self._tick()
        self._attempt(self._note_gap)
        self._attempt(lambda: self._seal(final=True))
        self._log_losses(float("inf"))
        self._file.close()

    def _next_batch(self) -> list[Observation | None]:
        """Return what waits, at most for a while; None is the end."""
        batch: list[Observation | None] = []
        with contextlib.suppress(queue.Empty):
            batch.append(self._queue.get(timeout=_TICK_SECONDS))
            while len(batch) < _MAX_BATCH and batch[-1] is not None:
                batch.append(self._queue.get_nowait())
        return batch

    def _write_batch(self, batch: Sequence[Observation]) -> None:
        written = [self._write(observation) for observation in batch]
        if self.required and any(written) and not self._attempt(self._file.sync):
            written = [False] * len(batch)
        confirmations = [
            (observation.confirmation, is_written)
            for observation, is_written in zip(batch, written, strict=True)
            if observation.confirmation is not None
        ]
        if confirmations:
            loop = confirmations[0][0].get_loop()
            with contextlib.suppress(RuntimeError):  # it is closed: nobody waits any more
                loop.call_soon_threadsafe(_confirm, confirmations)
        self._done_bytes += sum(observation.size for observation in batch)

    def _tick(self) -> None:
        if self._reason or self.lost > self._recorded_lost:
            self._attempt(self._recover)
        due = time.monotonic() - self._sealed_at >= _SEAL_SECONDS
        if self._unsealed >= _SEAL_ENTRIES or (self._unsealed and due):
            self._attempt(self._seal)
        self._log_losses(time.monotonic())

    def _write(self, observation: Observation) -> bool:
        def write() -> None:
            self._note_gap()
            members = observation.members
            self._append(members or self._entries.members(observation, self._configuration.current))

        if self._attempt(write):
            self._written += 1
            self._unsealed += 1
            return True
        self._failed += 1
        return False

    def _recover(self) -> None:
        self._note_gap()
        if self.required:
            self._file.sync()

    def _attempt(self, write: Any) -> bool:
        try:
            write()
        except OSError as error:
            self._reason = os.strerror(error.errno) if error.errno else "it cannot be written"
        except Exception as error:  # noqa: BLE001 - the next entry must still be written
            self._reason = type(error).__name__
        else:
            self._reason = ""
            return True
        return False

    def _note_gap(self) -> None:
        lost = self.lost
        if lost > self._recorded_lost:
            self._append({"kind": "gap", "time": audit_time(time.time()), "lost": lost - self._recorded_lost})
            self._recorded_lost = lost

    def _seal(self, *, final: bool = False) -> None:
        self._append({"kind": "seal", "time": audit_time(time.time()), "final": final}, room=0)
        self._file.sync()
        self._unsealed, self._sealed_at = 0, time.monotonic()
        extra = {"sequence": self._chain.sequence, "hash": self._chain.last}
        _log.info("decision log sealed", extra=extra)

    def _append(self, members: dict[str, Any], room: int = _SEAL_BYTES) -> None:
        self._file.follow()
        line, sequence = self._chain.line(members), self._chain.sequence
        if room and self._file.is_full(len(line) + room):
            self._add({"kind": "seal", "time": audit_time(time.time()), "final": False})
            self._file.sync()
            self._file.rotate()
        if self._file.is_empty:
            self._head("rotation")
        # A seal and a head have come between it and the line that it followed.
        self._add_line(line if self._chain.sequence == sequence else self._chain.line(members))

    def _head(self, why: str, repaired: int = 0) -> None:
        members = {
            "kind": "head",
            "time": audit_time(time.time()),
            "version": VERSION,
            "algorithm": self._chain.algorithm,
            "why": why,
        }
        self._add({**members, "repairedBytes": repaired} if repaired else members)

    def _add(self, members: dict[str, Any]) -> None:
        self._add_line(self._chain.line(members))

    def _add_line(self, line: bytes) -> None:
        self._file.append(line)
        self._chain.advance(line)

    def _log_losses(self, now: float) -> None:
        """Log at intervals that entries are lost, and the reason of the last one."""
        if self.lost == self._reported or now < self._next_log_at:
            return
        reason = self._reason or "more came than could be written"
        _log.error("entries of the decision log were lost", extra={"count": self.lost, "reason": reason})
        self._reported = self.lost
        self._next_log_at = now + _LOG_INTERVAL_SECONDS


def _unwritable() -> RequestError:
    text = "the server is currently unable to handle the request: its decision log cannot be written"
    return RequestError(statuses.service_unavailable(text))


def _confirm(confirmations: Sequence[tuple[asyncio.Future[bool], bool]]) -> None:
    """Tell those that wait whether their entries are on the disk; some may have gone."""
    for confirmation, is_written in confirmations:
        if not confirmation.done():
            confirmation.set_result(is_written)


def open_decision_log(settings: FrontDoorSettings) -> DecisionLog | None:
    """Return the decision log of the settings, which continues an earlier one; None without one.

    Raises:
        ConfigurationError: the file cannot be written to, another process writes to it, or it is not a log with this
            key.
    """
    if settings.decision_log is None:
        return None
    path = Path(settings.decision_log)
    key = (
        None
        if settings.decision_log_key is None
        else read_key(Path(settings.decision_log_key), "--decision-log-key")
    )
    if settings.decision_log_max_bytes < _MIN_FILE_BYTES:
        text = f"is less than {_MIN_FILE_BYTES}, in which a few entries have room"
        raise ConfigurationError(f"--decision-log-max-bytes {settings.decision_log_max_bytes}: {text}")
    chain = HashChain(key)
    entries = EntryWriter(key, secrets.token_bytes(32), settings.record_max_review_bytes)
    configuration = ConfigurationDigest(settings.chain.config)
    try:
        file = RotatedFile(
            path, max_bytes=settings.decision_log_max_bytes, files=settings.decision_log_files, alone=True
        )
        repaired = _resume_chain(chain, path)
        if repaired:
            file.close()  # it has noticed the partial entry at its end
            file.follow()
        return DecisionLog(
            file, chain, entries, configuration, required=settings.decision_log_required, repaired=repaired
        )
    except BlockingIOError:
        raise ConfigurationError(f"--decision-log {path}: another process writes to it") from None
    except OSError as error:
        raise ConfigurationError(f"--decision-log {path}: cannot be written to: {error.strerror}") from None


def _resume_chain(chain: HashChain, path: Path) -> int:
    """Set a chain to the end of the existing log, remove a partial entry, and return its bytes."""
    before = path.with_name(f"{path.name}.1")
    if not path.is_file():
        return 0
    with path.open("r+b") as file:
        end, line = _last_line(file)
        repaired = file.seek(0, os.SEEK_END) - end
        if repaired:
            file.truncate(end)
    # A writer that was killed between two files has left an empty one.
    if not line and before.is_file():
        with before.open("rb") as file:
            _, line = _last_line(file)
    if line:
        try:
            chain.sequence, chain.last = last_link(line, chain.key)
        except ValueError:
            text = "its last line is not one of a decision log with this key"
            advice = "verify it with pratique decision-log verify, and name another file"
            raise ConfigurationError(f"--decision-log {path}: {text}; {advice}") from None
    return repaired


_FIRST_BYTES = b'{"sequence":'
"""What every line starts with, even the partial line of a new file."""
_MAX_LINE_BYTES = 1024 * 1024
"""Bytes at the end of a file in which its last line is searched: many times the longest."""


def _last_line(file: Any) -> tuple[int, bytes]:
    """Return where the last complete line ends, and that line."""
    size = file.seek(0, os.SEEK_END)
    start = max(0, size - _MAX_LINE_BYTES)
    file.seek(start)
    tail = file.read()
    whole = tail[: tail.rfind(b"\n") + 1]
    if not whole and size and not tail.startswith(_FIRST_BYTES[:size]):
        raise ConfigurationError(
            f"--decision-log {file.name}: contains no line of a decision log; name another file"
        )
    return start + len(whole), whole[whole.rfind(b"\n", 0, -1) + 1 :]
