"""CEL values: the Python types that represent them, and their text form.

Null, bools, ints, doubles, strings, bytes, lists and maps are Python's own types; the others are defined here.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

Value: TypeAlias = Any
"""A CEL value; see the module's description."""

MINIMUM_INT, MAXIMUM_INT = -(2**63), 2**63 - 1
MAXIMUM_UINT = 2**64 - 1

NANOSECONDS = 1_000_000_000
"""Per second."""
MINIMUM_SECONDS, MAXIMUM_SECONDS = -62_135_596_800, 253_402_300_799
"""0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z, the range of timestamps, in seconds since 1970."""


class Uint(int):
    """An unsigned 64-bit integer."""

    __slots__ = ()


class Duration(msgspec.Struct, frozen=True, order=True):
    """A length of time in nanoseconds."""

    nanoseconds: int


class Timestamp(msgspec.Struct, frozen=True, order=True):
    """A point in time, in nanoseconds since 1970-01-01T00:00:00Z."""

    nanoseconds: int


class Optional(msgspec.Struct, frozen=True):
    """A value that may be absent. ``value`` means nothing if ``present`` is false."""

    present: bool
    value: Value = None


OPTIONAL_NONE = Optional(present=False)
"""The optional without a value."""


def optional_of(value: Value) -> Optional:
    """The optional that has a value."""
    return Optional(present=True, value=value)


class TypeName(msgspec.Struct, frozen=True):
    """A type as a value: the result of ``type(x)``."""

    name: str


_NAMES = {
    type(None): "null_type",
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    Optional: "optional_type",
    TypeName: "type",
}


def type_name(value: Value) -> str:
    """The name of a value's type, as in ``type(x)`` and error messages."""
    return _NAMES.get(type(value)) or str(getattr(value, "cel_type", "dyn"))


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_PLAIN_EXPONENTS = range(-4, 6)
"""The exponents that Go's ``%g`` does not write out in the shortest form of a double."""


def to_text(value: Value) -> str:
    """Write a value as ``string(x)`` does; values that it does not take get Python's text."""
    if value is None:
        return "null"
    write = _WRITERS.get(type(value))
    return write(value) if write else str(value)


def double_text(number: float) -> str:
    """Write a double as Go's ``strconv.FormatFloat(x, 'g', -1, 64)``: ``1e+06``, ``+Inf``, ``3``."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    shortest = decimal.Decimal(repr(number)).normalize()
    exponent = shortest.adjusted()
    if not number or exponent in _PLAIN_EXPONENTS:
        return f"{shortest:f}"
    mantissa = shortest.scaleb(-exponent)
    return f"{mantissa:f}e{exponent:+03d}"


def duration_text(duration: Duration) -> str:
    """Write a duration in seconds: ``90s``, ``0.5s``."""
    sign = "-" if duration.nanoseconds < 0 else ""
    seconds, rest = divmod(abs(duration.nanoseconds), NANOSECONDS)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{sign}{seconds}{fraction}s"


def timestamp_text(timestamp: Timestamp) -> str:
    """Write a timestamp as RFC 3339 in UTC: ``2024-01-01T00:00:00.5Z``."""
    seconds, rest = divmod(timestamp.nanoseconds, NANOSECONDS)
    moment = _EPOCH + dt.timedelta(seconds=seconds)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{moment.strftime('%Y').zfill(4)}{moment.strftime('-%m-%dT%H:%M:%S')}{fraction}Z"


def _boolean(value: Value) -> str:
    return "true" if value else "false"


def _type(value: Value) -> str:
    return value.name if isinstance(value, TypeName) else str(value)


_WRITERS: dict[type, Callable[[Value], str]] = {
    bool: _boolean,
    float: double_text,
    Duration: duration_text,
    Timestamp: timestamp_text,
    TypeName: _type,
    list: lambda items: f"[{', '.join(map(to_text, items))}]",
    dict: lambda items: f"{{{', '.join(f'{to_text(key)}: {to_text(item)}' for key, item in items.items())}}}",
}
