"""The recorder: what a line of a recording contains, and the thread that writes it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import logging
import os
import queue
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from pratique.admission.controllers import Phase
from pratique.admission.reviews import Review
from pratique.apimachinery.errors import ConfigurationError, InputError
from pratique.apimachinery.json_values import JSONObject, encode
from pratique.apimachinery.manifest_files import list_files
from pratique.apimachinery.requests import UserInfo
from pratique.telemetry.reloading_files import Fingerprint, fingerprint
from pratique_frontdoor.chain import decision_documents
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.http.codecs import ReceivedReview
from pratique_frontdoor.recording.files import RotatedFile
from pratique_frontdoor.recording.redaction import Redaction, concerns_secret
from pratique_frontdoor.settings import FrontDoorSettings

_LOOK_INTERVAL_SECONDS = 1.0


class ConfigurationDigest:
    """The digest of files and folders, computed again when they change."""

    def __init__(self, paths: Sequence[Path], clock: Callable[[], float] = time.monotonic) -> None:
        """Start with the current files."""
        self._paths = tuple(paths)
        self._clock = clock
        self._seen: Fingerprint | None = None
        self._due = float("-inf")
        self._current = ""

    @property
    def current(self) -> str:
        """``sha256:`` and the digest of the contents, at most a second old; empty without files."""
        now = self._clock()
        if self._paths and now >= self._due:
            self._due = now + _LOOK_INTERVAL_SECONDS
            seen = fingerprint(self._paths)
            if seen != self._seen:
                self._seen, self._current = seen, digest_of(self._paths)
        return self._current


def digest_of(paths: Sequence[Path]) -> str:
    """Return the digest of files, and of the files in folders by name; unreadable ones count as empty."""
    digest = hashlib.sha256()
    for path in paths:
        for content in _contents(path):
            digest.update(hashlib.sha256(content).digest())
    return f"sha256:{digest.hexdigest()}"


def _contents(path: Path) -> list[bytes]:
    try:
        return [Path(file).read_bytes() for file in list_files(path)]
    except (InputError, OSError):
        return []


class RecordedDecision(NamedTuple):
    """One decided review. It only holds references: nothing is copied or encoded for it."""

    time: float
    """The time of the decision, in seconds since 1970."""
    path: str
    """The HTTP path of the request."""
    phases: frozenset[Phase]
    """The phases that it went through."""
    received: ReceivedReview
    """The review."""
    decision: Decision
    """The decision."""

    @property
    def size(self) -> int:
        """Bytes of its objects, as received."""
        return objects_size(self.received.review)


def objects_size(review: Review) -> int:
    """Return the bytes of a review's objects, as received."""
    documents = (review.object_document, review.old_object_document, review.options_document)
    return sum(len(document.raw) for document in documents)


@dataclasses.dataclass(frozen=True, slots=True)
class LineWriter:
    """Writes lines without secrets."""

    key: bytes = dataclasses.field(repr=False)
    """The key by which equal secrets of one recording have equal replacements."""
    max_review_bytes: int
    """Objects and patches of larger reviews are omitted, and the line says so."""

    def write(self, entry: RecordedDecision, configuration: str) -> bytes:
        """Return a line; ``configuration`` identifies the configuration of the decision."""
        omitted = entry.size if entry.size > self.max_review_bytes else 0
        redaction = Redaction(self.key, in_secret=not omitted and concerns_secret(entry.received.review))
        line: JSONObject = {
            "time": dt.datetime.fromtimestamp(entry.time, tz=dt.UTC).isoformat().replace("+00:00", "Z"),
            "path": entry.path,
            "phase": _phase(entry.phases),
            "configuration": configuration,
            "review": _review(entry.received, redaction, whole=not omitted),
            "decision": _decision(entry, redaction, whole=not omitted),
        }
        if omitted:
            line["omittedBytes"] = omitted
        return encode(line) + b"\n"


def _phase(phases: frozenset[Phase]) -> str:
    """Return the name of phases as in ``?phase=``."""
    return "admit" if len(phases) > 1 else next(iter(phases)).value


def _review(received: ReceivedReview, redaction: Redaction, *, whole: bool) -> JSONObject:
    """Return the received AdmissionReview."""
    review = received.review
    request = {
        "uid": review.uid,
        "kind": review.kind,
        "resource": review.resource,
        "subResource": review.subresource,
        "requestKind": review.request_kind,
        "requestResource": review.request_resource,
        "requestSubResource": review.request_subresource,
        "name": review.name,
        "namespace": review.namespace,
        "operation": review.operation.value,
        "userInfo": _user(review.user, redaction),
        "object": redaction.value(review.object) if whole else None,
        "oldObject": redaction.value(review.old_object) if whole else None,
        "dryRun": review.dry_run,
        "options": redaction.value(review.options) if whole else None,
    }
    present = {name: value for name, value in request.items() if value not in ("", None)}
    return {"apiVersion": received.api_version, "kind": "AdmissionReview", "request": present}


def _user(user: UserInfo, redaction: Redaction) -> JSONObject:
    extra = {name: redaction.texts(values) for name, values in user.extra.items()}
    fields = {"username": user.username, "uid": user.uid, "groups": user.groups, "extra": extra}
    return {name: value for name, value in fields.items() if value}


def _decision(entry: RecordedDecision, redaction: Redaction, *, whole: bool) -> JSONObject:
    """Return the decision document without its object, which is that of the review with the patch applied."""
    if not whole:
        return _without_texts(decision_documents.to_document(entry.decision))
    objects = [entry.received.review.object, entry.decision.object_document.data]
    if entry.decision.patch:
        redaction.value(objects[-1])  # for what is quoted from it
    # Texts may quote what any step has put into the object.
    patch, *patches = [
        redaction.patch(operations, objects)
        for operations in (entry.decision.patch, *(step.patch for step in entry.decision.steps))
    ]
    shadows = [
        step.shadow and {"patch": redaction.patch(step.shadow.patch, objects)}
        for step in entry.decision.steps
    ]
    document = decision_documents.to_document(redaction.decision(entry.decision))
    del document["object"], document["expanded"]
    steps = [
        {**step, "patch": own} | ({"shadow": step["shadow"] | shadow} if shadow else {})
        for step, own, shadow in zip(document["steps"], patches, shadows, strict=True)
    ]
    return {**document, "patch": patch, "steps": steps}


def _without_texts(document: JSONObject) -> JSONObject:
    """Return what needs no object: without searching that, its values cannot be recognized in messages and patches."""
    status = document["status"]
    steps = [_without_patch(step) | {"reason": ""} for step in document["steps"]]
    return {
        "uid": document["uid"],
        "allowed": document["allowed"],
        "status": None
        if status is None
        else {"code": status.get("code", 0), "reason": status.get("reason", "")},
        "steps": steps,
    }


def _without_patch(step: JSONObject) -> JSONObject:
    shadow = {"shadow": {**step["shadow"], "patch": []}} if "shadow" in step else {}
    return {**step, "patch": []} | shadow


_log = logging.getLogger(__name__)

_WAITING = 1024
"""Entries that may wait: one second of them at a thousand reviews per second."""
_WAITING_BYTES = 32 * 1024 * 1024
"""Bytes of objects that may wait, as received: half of the limit for reviews in flight."""
_DRAIN_SECONDS = 5.0
"""How long the last lines may take: waiting lines are written within a second, unless the disk hangs."""
_LOG_INTERVAL_SECONDS = 60.0


class LineSink(Protocol):
    """Where the lines of a recording go. It is called in the recorder's thread alone."""

    def append(self, line: bytes) -> None:
        """Keep a line, which has no secrets and ends with a newline.

        Raises:
            OSError: it cannot be kept.
        """

    def close(self) -> None:
        """Expect no more lines."""


class Recorder:
    """Writes decided reviews as lines to sinks, such as a file, in its own thread."""

    def __init__(
        self, sinks: Sequence[LineSink], lines: LineWriter, configuration: ConfigurationDigest
    ) -> None:
        """Start to write; :meth:`close` ends it. If a sink fails, those after it miss the line."""
        self._sinks = tuple(sinks)
        self._lines = lines
        self._configuration = configuration
        self._entries: queue.SimpleQueue[RecordedDecision | None] = queue.SimpleQueue()
        # Only one thread writes each of these, so none needs a lock.
        self._taken_bytes = self._done_bytes = 0
        self._refused = self._failed = 0
        self._written = self._reported = 0
        self._reason = ""
        self._next_log_at = float("-inf")
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    @property
    def written(self) -> int:
        """The number of written lines."""
        return self._written

    @property
    def dropped(self) -> int:
        """The number of dropped lines: the queue was full, or they could not be written."""
        return self._refused + self._failed

    def record(
        self, path: str, phases: frozenset[Phase], received: ReceivedReview, decision: Decision
    ) -> None:
        """Queue a decision for writing. Never waits, never fails."""
        if self._entries.qsize() >= _WAITING or self._taken_bytes - self._done_bytes > _WAITING_BYTES:
            self._refused += 1
            return
        entry = RecordedDecision(time.time(), path, phases, received, decision)
        self._taken_bytes += entry.size
        self._entries.put(entry)

    def close(self, seconds: float = _DRAIN_SECONDS) -> None:
        """Write waiting lines, for at most ``seconds``. Nothing may be recorded afterwards."""
        self._entries.put(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            _log.warning(
                "the recording is incomplete",
                extra={"count": self._entries.qsize(), "reason": "the disk hangs"},
            )

    def _run(self) -> None:
        while (entry := self._entries.get()) is not None:
            self._write(entry)
            self._done_bytes += entry.size
            self._log_losses(time.monotonic())
            del entry  # releases the review while waiting for the next
        self._log_losses(float("inf"))
        for sink in self._sinks:
            sink.close()

    def _write(self, entry: RecordedDecision) -> None:
        try:
            line = self._lines.write(entry, self._configuration.current)
            for sink in self._sinks:
                sink.append(line)
        except OSError as error:
            self._fail(os.strerror(error.errno) if error.errno else "it cannot be written")
        except Exception as error:  # noqa: BLE001 - the next line must still be written
            self._fail(type(error).__name__)
        else:
            self._written += 1

    def _fail(self, reason: str) -> None:
        self._failed += 1
        self._reason = reason

    def _log_losses(self, now: float) -> None:
        """Log at intervals how many lines were dropped, and the reason of the last one."""
        dropped = self.dropped
        if dropped == self._reported or now < self._next_log_at:
            return
        reason = self._reason or "more came than could be written"
        _log.warning(
            "lines of the recording were dropped", extra={"count": dropped - self._reported, "reason": reason}
        )
        self._reported, self._reason = dropped, ""
        self._next_log_at = now + _LOG_INTERVAL_SECONDS


def open_recorder(settings: FrontDoorSettings, live: LineSink | None = None) -> Recorder | None:
    """Return the recorder of the settings; None if nothing is recorded.

    Args:
        settings: The settings of the front door.
        live: Gets every line, whether or not there is a file.

    Raises:
        ConfigurationError: the file cannot be written to.
    """
    sinks: list[LineSink] = [] if live is None else [live]
    if settings.record is not None:
        sinks.append(_open_file(settings, Path(settings.record)))
    if not sinks:
        return None
    lines = LineWriter(secrets.token_bytes(32), settings.record_max_review_bytes)
    return Recorder(sinks, lines, ConfigurationDigest(settings.chain.config))


def _open_file(settings: FrontDoorSettings, path: Path) -> RotatedFile:
    try:
        return RotatedFile(path, max_bytes=settings.record_max_bytes, files=settings.record_files)
    except OSError as error:
        raise ConfigurationError(f"--record {path}: cannot be written to: {error.strerror}") from None
