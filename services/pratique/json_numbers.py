"""JSON numbers as Go reads and writes them: integers that fit are ``int64``, everything else is ``float64``.

Sources: ``sigs.k8s.io/json/internal/golang/encoding/json/decode.go`` (``convertNumber``), and
``encoding/json/encode.go`` (``floatEncoder``).
"""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING

import msgspec
import re2  # type: ignore[import-untyped] # it has no type stubs

if TYPE_CHECKING:
    from pratique.json_values import JSON

INT64 = range(-(2**63), 2**63)
"""What Go holds as an integer."""

OUT_OF_RANGE = "Number out of range"
"""What msgspec says of a number that is no float64."""

_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_LONG = b"0" * 19
"""What no int64 is longer than; anything shorter fits."""
_EVERY = 4
_LONG_SEEN = b"0" * (19 // _EVERY)
"""What is seen of 19 digits by who looks at every fourth byte."""

_SMALLEST_PLAIN, _LARGEST_PLAIN = 1e-6, 1e21
"""Between these Go writes digits alone; below and from there on it writes an exponent."""

_FLOAT = re2.compile(rb"[:\[,]-?[0-9]+(?:\.[0-9]+(?:e[-+]?[0-9]+)?|e[-+]?[0-9]+)[,\]}]")
"""A float where a value of compact JSON can stand. 2 us for a Pod, half of what Python's own patterns would take."""


def may_hold_long(raw: bytes | str) -> bool:
    """True where a text has so many digits in a row that they may be no int64."""
    text = raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else raw
    return _LONG_SEEN in text[::_EVERY].translate(_DIGITS) and _LONG in text.translate(_DIGITS)


def with_floats(value: JSON) -> JSON:
    """Make floats of the integers that are no int64. Lists and dicts are changed in place.

    Raises:
        msgspec.ValidationError: one is no float64, either.
    """
    if type(value) is int:
        return _number(value)
    pending = [value]
    while pending:
        container = pending.pop()
        if isinstance(container, dict | list):
            for key, item in container.items() if isinstance(container, dict) else enumerate(container):
                if type(item) is int:
                    if item not in INT64:
                        container[key] = _number(item)
                elif isinstance(item, dict | list):
                    pending.append(item)
    return value


def _number(value: int) -> int | float:
    if value in INT64:
        return value
    try:
        return float(value)
    except OverflowError:
        raise msgspec.ValidationError(OUT_OF_RANGE) from None


def may_hold_floats(written: bytes) -> bool:
    """True where compact JSON text of a list or an object may hold a float; a text in it can look like one."""
    return _FLOAT.search(written) is not None


def with_go_floats(value: JSON) -> JSON:
    """The same value, in which every float is the text that Go writes for it. Nothing is changed in place."""
    if type(value) is float:
        return msgspec.Raw(float_text(value).encode())
    if isinstance(value, dict):
        return {name: with_go_floats(item) for name, item in value.items()}
    return [with_go_floats(item) for item in value] if isinstance(value, list | tuple) else value


def float_text(value: float) -> str:
    """Write a finite number as Go's ``encoding/json`` does: ``1`` for 1.0, ``1e+21``, and ``1e-7``."""
    if value == 0 or _SMALLEST_PLAIN <= abs(value) < _LARGEST_PLAIN:
        plain = format(decimal.Decimal(repr(value)), "f")
        return plain.removesuffix(".0")
    # Python writes such numbers with an exponent, too; Go has one digit less where it is negative and has one.
    return repr(value).replace("e-0", "e-")
