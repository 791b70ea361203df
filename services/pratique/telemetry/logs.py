"""Structured logs: one JSON object per line on standard error, with declared fields only."""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
import logging
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import FrameType, MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from pythonjsonlogger.json import JsonFormatter

from pratique.apimachinery.statuses import go_quoted

if TYPE_CHECKING:
    from typing import TypeAlias


_ExceptionInfo: TypeAlias = (
    "tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]"
)

_MAX_PLACES = 12
"""How many innermost frames are logged: enough for a controller and its callees, even in endless recursion."""


def describe_error(error: BaseException) -> str:
    """Describe an error and its causes by type and place only, the innermost place first.

    For example ``KeyError < look_up (acme/policy.py:7) < judge (acme/policy.py:3)``.
    """
    described: list[str] = []
    current: BaseException | None = error
    while current is not None and len(described) < _MAX_PLACES:
        described.append(_error_with_places(current))
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return "; because of ".join(described)


def _error_with_places(error: BaseException) -> str:
    # Source lines are not looked up: they may hold literals, and reading files would block.
    frames = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__), lookup_lines=False)
    return " < ".join([type(error).__name__, *map(_place, reversed(frames[-_MAX_PLACES:]))])


def describe_stack(frame: FrameType) -> str:
    """Describe what a thread does by places in the code only, the innermost first."""
    innermost = itertools.islice(traceback.walk_stack(frame), _MAX_PLACES)
    return " < ".join(map(_place, traceback.StackSummary.extract(innermost, lookup_lines=False)))


def _place(frame: traceback.FrameSummary) -> str:
    return f"{frame.name} ({_short_path(frame.filename)}:{frame.lineno})"


def _short_path(filename: str) -> str:
    return "/".join(filename.rsplit("/", 2)[-2:])


_OWN_CODE = str(Path(__file__).parents[1]) + os.sep
"""What calls policies, and what they call, of Pratique itself."""


def place_in_policy(error: BaseException) -> str:
    """Where in a policy's own code an error arose, as ``require_team (policies/team.py:7)``; empty if it is not known.

    That is the innermost place in the folder of the code that was called, so that no library is named which it calls.
    """
    frames = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__), lookup_lines=False)
    others = [frame for frame in frames if not frame.filename.startswith(_OWN_CODE)]
    if not others:
        return ""
    folder = Path(others[0].filename).parent
    innermost = [frame for frame in others if Path(frame.filename).parent == folder][-1]
    path = Path(innermost.filename)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"{innermost.name} ({shown}:{innermost.lineno})"


FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "address": "where a service listens, or the peer that it calls",
        "code": "an HTTP or gRPC status code",
        "configuration": "a webhook configuration, policy or binding, by name",
        "controller": "an admission controller, by name",
        "count": "how many",
        "document": "which document of a file, counted from 1",
        "duration_ms": "how long it took",
        "error": "the type of an exception and where in the code it arose, innermost place first",
        "error_id": "the id of a failure, as in the answer to the caller",
        "file": "a file that the operator named",
        "hash": "the hash of an entry of the decision log",
        "ledger": "where charges against quotas are kept, without a password",
        "method": "an HTTP method or an rpc",
        "object": "an object of a live cluster, by resource, namespace and name",
        "path": "a known HTTP path",
        "phase": "mutate or validate",
        "quota": "a ResourceQuota, by namespace and name",
        "reason": "why, in words that hold no part of any reviewed object",
        "resource": "a resource of a live cluster, such as pods",
        "sequence": "the number of an entry of the decision log",
        "signal": "a signal, by name",
        "stack": "where in the code the event loop's thread is, innermost place first",
        "uid": "a review's uid",
        "webhook": "a webhook, by name",
    }
)
"""The fields that a line may have besides time, level, service, logger and message; pass them in ``extra``."""

MAX_TEXT_LENGTH = 256
"""The maximum length of a field or message, in characters; longer ones are cut off with an ellipsis. A Kubernetes name
has at most 253."""

MAX_STACK_LENGTH = 1024
"""The same of a stack, of which a dozen places are logged."""

_OWN_LOGGERS = ("pratique", "pratique_mutator", "pratique_validator", "pratique_frontdoor", "pratique_cli")


def configure_logging(service: str, level: int | str | None = None, stream: TextIO | None = None) -> None:
    """Configure logging for ``service``.

    ``level`` applies to Pratique's own loggers; the default is INFO, or DEBUG if ``PRATIQUE_DEBUG`` is set. Libraries
    log from WARNING upwards. ``stream`` defaults to standard error.
    """
    if level is None:
        level = logging.DEBUG if os.environ.get("PRATIQUE_DEBUG") else logging.INFO
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Formatter(service))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in _OWN_LOGGERS:
        logging.getLogger(name).setLevel(level)
    # If a line cannot be written, logging would print it with its arguments: drop it instead.
    logging.raiseExceptions = False
    logging.captureWarnings(capture=True)


def log_loop_error(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an unhandled error of an event loop; for ``loop.set_exception_handler``.

    The loop's own message is left out because it quotes the arguments of callbacks.
    """
    logging.getLogger("pratique.loop").error(
        "unhandled error in the event loop", exc_info=context.get("exception")
    )


class _Formatter(JsonFormatter):
    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def add_fields(
        self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]
    ) -> None:
        log_data["time"] = dt.datetime.fromtimestamp(record.created, tz=dt.UTC)
        log_data["level"] = record.levelname.lower()
        log_data["service"] = self._service
        log_data["logger"] = _loggable(record.name)
        log_data["message"] = _loggable(_message(record))
        for name, value in record.__dict__.items():
            if name in FIELDS:
                log_data[name] = _loggable(value, MAX_STACK_LENGTH if name == "stack" else MAX_TEXT_LENGTH)
        if "exc_info" in message_dict:
            log_data["error"] = _loggable(message_dict["exc_info"])

    def formatException(self, ei: _ExceptionInfo) -> str:  # noqa: N802 - logging's own name
        return "" if ei[1] is None else describe_error(ei[1])


def _message(record: logging.LogRecord) -> str:
    if record.name.partition(".")[0] in _OWN_LOGGERS:
        return record.message
    # Libraries append tracebacks and representations after the first line.
    return record.message.partition("\n")[0]


def _loggable(value: object, max_length: int = MAX_TEXT_LENGTH) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    if not isinstance(value, str):
        return f"<{type(value).__name__}>"
    # Cut before quoting, which takes time per character, and again after it, because quoting lengthens the text.
    text = value[: max_length + 1]
    if not text.isprintable():
        text = go_quoted(text)[1:-1]
    return text if len(text) <= max_length else text[: max_length - 1] + "…"
