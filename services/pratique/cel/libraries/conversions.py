"""Conversions such as ``int(x)`` and ``timestamp(x)``, and the parts of timestamps and durations.

Source: ``github.com/google/cel-go/common/types``: ``ConvertToType``, ``timestamp.go`` and ``duration.go``.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import zoneinfo
from collections.abc import Callable

from pratique.apimachinery import durations
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.patterns import pattern
from pratique.cel.activation import Frame
from pratique.cel.declarations import Library, Overload
from pratique.cel.errors import EvaluationError, NoSuchOverloadError
from pratique.cel.libraries.operators import checked_int, checked_timestamp, checked_uint
from pratique.cel.values import (
    MAXIMUM_INT,
    MAXIMUM_UINT,
    MINIMUM_INT,
    NANOSECONDS,
    Duration,
    Timestamp,
    Uint,
    Value,
    to_text,
)

_INTEGER = pattern(r"[+-]?[0-9]+", re.ASCII)
_DOUBLE = pattern(
    r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf(inity)?|nan)", re.ASCII | re.IGNORECASE
)
_TIMESTAMP = pattern(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})
_TEXTUAL = frozenset({str, bool, int, Uint, float, Duration, Timestamp})
_MAX_LENGTH = 1000
"""The longest text, in characters, that is read as a number or time: reading costs 1, whatever the length."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def _conversion_error(source: str, target: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{source}' to '{target}'")


def _parse_integer(text: str, target: str, minimum: int, maximum: int) -> int:
    if len(text) < _MAX_LENGTH and _INTEGER.fullmatch(text) and minimum <= int(text) <= maximum:
        return int(text)
    raise _conversion_error("string", target)


def _int(_: Frame, value: Value) -> Value:
    match value:
        case bool():
            raise NoSuchOverloadError
        case int():
            return checked_int(int(value))
        case float():
            if not math.isfinite(value) or not MINIMUM_INT < value < MAXIMUM_INT:
                raise EvaluationError("integer overflow")
            return int(value)
        case str():
            return _parse_integer(value, "int", MINIMUM_INT, MAXIMUM_INT)
        case Duration(nanoseconds):
            return nanoseconds
        case Timestamp(nanoseconds):
            return nanoseconds // NANOSECONDS
        case _:
            raise NoSuchOverloadError


def _uint(_: Frame, value: Value) -> Value:
    match value:
        case bool():
            raise NoSuchOverloadError
        case int():
            return checked_uint(value)
        case float():
            if not math.isfinite(value) or not 0 <= value < MAXIMUM_UINT:
                raise EvaluationError("unsigned integer overflow")
            return Uint(value)
        case str() if not value.startswith(("+", "-")):
            return Uint(_parse_integer(value, "uint", 0, MAXIMUM_UINT))
        case str():
            raise _conversion_error("string", "uint")
        case _:
            raise NoSuchOverloadError


def _double(_: Frame, value: Value) -> Value:
    match value:
        case bool():
            raise NoSuchOverloadError
        case int() | float():
            return float(value)
        case str():
            return _parse_double(value)
        case _:
            raise NoSuchOverloadError


def _parse_double(text: str) -> float:
    """Parse a double. A number that is too large is an error, unless it is written as infinite."""
    if (
        len(text) < _MAX_LENGTH
        and _DOUBLE.fullmatch(text)
        and ("inf" in text.lower() or not math.isinf(float(text)))
    ):
        return float(text)
    raise _conversion_error("string", "double")


def _bool(_: Frame, value: Value) -> Value:
    match value:
        case bool():
            return value
        case str() if value in _TRUE:
            return True
        case str() if value in _FALSE:
            return False
        case str():
            raise _conversion_error("string", "bool")
        case _:
            raise NoSuchOverloadError


def _bytes(frame: Frame, value: Value) -> Value:
    match value:
        case bytes():
            return value
        case str():
            frame.add_work(len(value))
            return value.encode()
        case _:
            raise NoSuchOverloadError


def _string(frame: Frame, value: Value) -> Value:
    if type(value) in _TEXTUAL:
        return to_text(value)
    if type(value) is bytes:
        frame.add_work(len(value))
        return _decode_utf8(value)
    if hasattr(value, "cel_string"):
        return value.cel_string
    raise NoSuchOverloadError


def _decode_utf8(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def _duration(_: Frame, value: Value) -> Value:
    match value:
        case Duration():
            return value
        case str():
            return _parse_duration(value)
        case _:
            raise NoSuchOverloadError


def _parse_duration(text: str) -> Duration:
    failure = _conversion_error("string", "google.protobuf.Duration")
    if len(text) >= _MAX_LENGTH:
        raise failure
    try:
        return Duration(durations.parse(text).nanoseconds)
    except InputError:
        raise failure from None


def _timestamp(_: Frame, value: Value) -> Value:
    match value:
        case Timestamp():
            return value
        case bool() | Uint():
            raise NoSuchOverloadError
        case int():
            return checked_timestamp(value * NANOSECONDS)
        case str():
            return checked_timestamp(_parse_timestamp(value))
        case _:
            raise NoSuchOverloadError


def _parse_timestamp(text: str) -> int:
    """Parse RFC 3339 as Go's ``time.Parse`` does; digits beyond nanoseconds are cut off."""
    failure = _conversion_error("string", "google.protobuf.Timestamp")
    match = _TIMESTAMP.fullmatch(text) if len(text) < _MAX_LENGTH else None
    if match is None:
        raise failure
    fraction, sign, hours, minutes = match[7] or "", match[8] or "+", match[9] or "0", match[10] or "0"
    if int(hours) > 24 or int(minutes) >= 60:
        raise failure
    try:
        moment = dt.datetime(*(int(part) for part in match.groups()[:6]), tzinfo=dt.UTC)  # type: ignore[arg-type,misc] # six numbers
    except ValueError:
        raise failure from None
    offset = (int(hours) * 60 + int(minutes)) * 60 * (-1 if sign == "-" else 1)
    since = moment - _EPOCH
    seconds = since.days * 86_400 + since.seconds - offset
    return seconds * NANOSECONDS + int(fraction[:9].ljust(9, "0"))


def _dyn(_: Frame, value: Value) -> Value:
    return value


CONVERSIONS = Library(
    overloads=tuple(
        Overload(identifier, f"string({source})", "string")
        for identifier, source in (
            ("string_to_string", "string"),
            ("bool_to_string", "bool"),
            ("bytes_to_string", "bytes"),
            ("double_to_string", "double"),
            ("duration_to_string", "duration"),
            ("int64_to_string", "int"),
            ("timestamp_to_string", "timestamp"),
            ("uint64_to_string", "uint"),
            ("ip_to_string", "net.IP"),
            ("cidr_to_string", "net.CIDR"),
        )
    ),
    functions={
        "int": _int,
        "uint": _uint,
        "double": _double,
        "bool": _bool,
        "bytes": _bytes,
        "string": _string,
        "duration": _duration,
        "timestamp": _timestamp,
        "dyn": _dyn,
    },
)
EXCLUDED_CONVERSIONS = ("string",)
"""Functions whose own declarations the checker drops for ours: its ``string`` takes no addresses."""


_NUMBER = pattern(r"[+-]?[0-9]{1,9}", re.ASCII)
_ZONE_WORK = 1000
"""Uncounted work for a time zone: each lookup of one that does not exist searches the file system."""
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
            frame.add_work(1 if zone is None else _ZONE_WORK)
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
