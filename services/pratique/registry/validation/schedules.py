"""The schedules of CronJobs.

Source: the parser of ``github.com/robfig/cron/v3`` that ``ParseStandard`` uses, and its words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from pratique.apimachinery import durations
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.go_formats import parse_int64
from pratique.apimachinery.patterns import pattern


class _Bounds(NamedTuple):
    """The values that a field of a schedule may have."""

    least: int
    most: int
    names: Mapping[str, int] = {}


_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS = (
    _Bounds(0, 59),
    _Bounds(0, 23),
    _Bounds(1, 31),
    _Bounds(1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    _Bounds(0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_DESCRIPTORS = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_EVERY = "@every "
_ZONE = pattern(r"(?:CRON_)?TZ=(\S*)(?: (.*))?", re.DOTALL)


class _ScheduleError(Exception):
    pass


def schedule_fault(schedule: str) -> str:
    """What is wrong with a schedule; empty if nothing is."""
    zoned = _ZONE.match(schedule)
    if zoned is not None:
        schedule = (zoned[2] or "").strip()
    if not schedule:
        return "empty spec string"
    if schedule.startswith("@"):
        return _descriptor_fault(schedule)
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        return f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]"
    try:
        for text, bounds in zip(fields, _FIELDS, strict=True):
            for part in filter(None, text.split(",")):
                _check_range(part, bounds)
    except _ScheduleError as error:
        return str(error)
    return ""


def _descriptor_fault(schedule: str) -> str:
    if schedule in _DESCRIPTORS:
        return ""
    if not schedule.startswith(_EVERY):
        return f"unrecognized descriptor: {schedule}"
    try:
        durations.parse(schedule.removeprefix(_EVERY))
    except InputError as error:
        return f"failed to parse duration {schedule}: {error}"
    return ""


def _check_range(text: str, bounds: _Bounds) -> None:
    span, *steps = text.split("/")
    low, *highs = span.split("-")
    if low in {"*", "?"}:
        start, end = bounds.least, bounds.most
    else:
        start = _number_or_name(low, bounds)
        if len(highs) > 1:
            raise _ScheduleError(f"too many hyphens: {text}")
        end = _number_or_name(highs[0], bounds) if highs else start
    step = 1
    if len(steps) > 1:
        raise _ScheduleError(f"too many slashes: {text}")
    if steps:
        step = _number(steps[0])
        end = end if highs else bounds.most
    if start < bounds.least:
        raise _ScheduleError(f"beginning of range ({start}) below minimum ({bounds.least}): {text}")
    if end > bounds.most:
        raise _ScheduleError(f"end of range ({end}) above maximum ({bounds.most}): {text}")
    if start > end:
        raise _ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise _ScheduleError(f"step of range should be a positive number: {text}")


def _number_or_name(text: str, bounds: _Bounds) -> int:
    named = bounds.names.get(text.lower())
    return _number(text) if named is None else named


def _number(text: str) -> int:
    try:
        number = parse_int64(text, "Atoi")
    except ValueError as error:
        raise _ScheduleError(f"failed to parse int from {text}: {error}") from None
    if number < 0:
        raise _ScheduleError(f"negative number ({number}) not allowed: {text}")
    return number
