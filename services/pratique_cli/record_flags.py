"""The flags that say what is recorded: the same for ``up``, ``record`` and the front door."""

from __future__ import annotations

import dataclasses
import functools
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from frontdoor.settings import FrontDoorSettings
from pratique_cli.settings_flags import setting_flag

if TYPE_CHECKING:
    from collections.abc import Callable

RECORD_HELPS = MappingProxyType(
    {
        "record": "A file to which reviews and decisions are written, secrets redacted: docs/record-and-replay.md.",
        "record_max_bytes": "The size at which the recording goes on in another file, such as 16MiB.",
        "record_files": "How many files it has at most: FILE, FILE.1, …",
        "record_max_review_bytes": "Of reviews with larger objects the objects are left out.",
    }
)
"""What the help says, by field of the front door's settings."""


def record_flags(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags to a command; it gets them as ``recording``, the front door's arguments."""
    fields = {field.name: field for field in dataclasses.fields(FrontDoorSettings)}

    @functools.wraps(callback)
    def gather(**values: Any) -> Any:
        given = {name: values.pop(name) for name in RECORD_HELPS}
        return callback(recording=_arguments(given), **values)

    flags = [setting_flag(fields[name], text) for name, text in RECORD_HELPS.items()]
    return functools.reduce(lambda command, add: add(command), reversed(flags), gather)


def _arguments(given: dict[str, Any]) -> tuple[str, ...]:
    """Write the flags' values as the flags that give them; none where nothing is recorded."""
    if given["record"] is None:
        return ()
    return tuple(
        part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", str(value))
    )
