"""Flags of the front door that ``up`` and ``record`` take, too, and pass on to it."""

from __future__ import annotations

import dataclasses
import functools
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from frontdoor.settings import FrontDoorSettings
from pratique_cli.settings_options import setting_flag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

RECORD_HELPS = MappingProxyType(
    {
        "record": "A file to which reviews and decisions are written, secrets redacted: docs/record-and-replay.md.",
        "record_max_bytes": "The size at which the recording goes on in another file, such as 16MiB.",
        "record_files": "How many files it has at most: FILE, FILE.1, …",
        "record_max_review_bytes": "Of reviews with larger objects the objects are left out.",
    }
)
DECISION_LOG_HELPS = MappingProxyType(
    {
        "decision_log": "A file that gets one line for each decision, chained by hashes: docs/decision-log.md.",
        "decision_log_key": "A file with a key for the chain, so that nobody without it can forge one.",
        "decision_log_max_bytes": "The size at which the log goes on in another file, such as 16MiB.",
        "decision_log_files": "How many files it has at most: FILE, FILE.1, …; 0 keeps them all.",
        "decision_log_required": "Answer 503 to reviews while the log cannot be written.",
    }
)
BREAKER_HELPS = MappingProxyType(
    {
        "webhook_breaker_failures": "Calls in a row without an answer after which a webhook is not called; 0: never.",
        "webhook_breaker_seconds": "For how long it is not called then; failed trials double it, up to 8 times.",
    }
)
FRONT_DOOR_HELPS = MappingProxyType({**RECORD_HELPS, **DECISION_LOG_HELPS, **BREAKER_HELPS})
"""What the help says, by field of the front door's settings."""

_FLAG_GROUPS: tuple[Mapping[str, str], ...] = (RECORD_HELPS, DECISION_LOG_HELPS, BREAKER_HELPS)
"""Flags that mean something together: the first of each says whether there is anything to do."""


def front_door_flags(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags to a command; it gets them as ``front_door``, the arguments that give them again."""
    fields = {field.name: field for field in dataclasses.fields(FrontDoorSettings)}

    @functools.wraps(callback)
    def gather(**values: Any) -> Any:
        given = {name: values.pop(name) for name in FRONT_DOOR_HELPS}
        return callback(front_door=tuple(_given_arguments(given)), **values)

    flags = [setting_flag(fields[name], text) for name, text in FRONT_DOOR_HELPS.items()]
    return functools.reduce(lambda command, add: add(command), reversed(flags), gather)


def _given_arguments(given: Mapping[str, Any]) -> Iterator[str]:
    """Write the values as the flags that give them; none of a group whose first says that there is nothing to do."""
    for group in _FLAG_GROUPS:
        if not given[next(iter(group))]:
            continue
        for name in group:
            value, flag = given[name], f"--{name.replace('_', '-')}"
            if value is True:
                yield flag
            elif value is not None and value is not False:
                yield from (flag, str(value))
