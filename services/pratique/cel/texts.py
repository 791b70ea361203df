"""Texts: values as text, as ``string(x)``, ``format`` and error messages have them.

Source: ``github.com/google/cel-go/common/types`` ``ConvertToType(StringType)`` and Go's ``strconv`` and ``time``.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import TYPE_CHECKING

from pratique.cel.values import NANOSECONDS, Duration, Timestamp, TypeName, Value

if TYPE_CHECKING:
    from collections.abc import Callable

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_PLAIN_EXPONENTS = range(-4, 6)
"""The decimal exponents that Go's ``%g`` writes without one, for the shortest form of a double."""


def to_text(value: Value) -> str:
    """Write a value as ``string(x)`` does; what has no such form by its Python text."""
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
