"""Times: the parts of timestamps and durations.

Source: ``github.com/google/cel-go/common/types/timestamp.go`` and ``duration.go``.
"""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from typing import TYPE_CHECKING

from pratique.cel.declarations import Library
from pratique.cel.errors import EvaluationError, NoSuchOverloadError
from pratique.cel.values import NANOSECONDS, Duration, Timestamp, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from pratique.cel.activation import Frame

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}", re.ASCII)
_ZONE_TOIL = 1000
"""Toil of finding a time zone: one that does not exist is looked for in files each time."""
_UNITS = {
    "getHours": 3600 * NANOSECONDS,
    "getMinutes": 60 * NANOSECONDS,
    "getSeconds": NANOSECONDS,
    "getMilliseconds": 1_000_000,
}


def _in_zone(timestamp: Timestamp, zone: Value) -> dt.datetime:
    seconds, nanoseconds = divmod(timestamp.nanoseconds, NANOSECONDS)
    try:
        moment = _EPOCH + dt.timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
        return moment.astimezone(_zone(zone))
    except OverflowError:
        raise EvaluationError("timestamp overflow") from None


def _zone(name: Value) -> dt.tzinfo:
    if name is None:
        return dt.UTC
    if type(name) is not str:
        raise NoSuchOverloadError
    hours, colon, minutes = name.partition(":")
    if colon:
        return dt.timezone(dt.timedelta(minutes=_offset(name, hours, minutes)))
    try:
        return dt.UTC if name in ("", "UTC") else zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise EvaluationError(f"unknown time zone {name}") from None


def _offset(name: str, hours: str, minutes: str) -> int:
    for part in (hours, minutes):
        if not _NUMBER.fullmatch(part):
            raise EvaluationError(f'strconv.Atoi: parsing "{part}": invalid syntax')
    if not 0 <= int(minutes) <= 59:
        raise EvaluationError(f"timezone offset minutes out of range [0, 59]: {name}")
    offset = int(hours) * 60 + (-int(minutes) if name.startswith("-") else int(minutes))
    if abs(offset) >= 24 * 60:
        raise EvaluationError(f"timezone offset out of range: {name}")
    return offset


def _time_part(name: str, read: Callable[[dt.datetime], int]) -> Callable[..., int]:
    unit = _UNITS.get(name)

    def run(frame: Frame, value: Value, zone: Value = None) -> int:
        if type(value) is Timestamp:
            frame.work(1 if zone is None else _ZONE_TOIL)
            return read(_in_zone(value, zone))
        if type(value) is not Duration or unit is None or zone is not None:
            raise NoSuchOverloadError
        whole = abs(value.nanoseconds) // unit
        return -whole if value.nanoseconds < 0 else whole

    return run


_PARTS: dict[str, Callable[[dt.datetime], int]] = {
    "getFullYear": lambda moment: moment.year,
    "getMonth": lambda moment: moment.month - 1,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
    "getMilliseconds": lambda moment: moment.microsecond // 1000,
}

TIMES = Library(functions={name: _time_part(name, read) for name, read in _PARTS.items()})
