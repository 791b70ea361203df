"""Durations in Go's notation: ``10s``, ``1m30s``, ``300ms``.

Parsing and printing follow ``time.ParseDuration`` and ``time.Duration.String``, rounding included: the API server
uses this notation in URLs, configuration files and error messages.
"""

from __future__ import annotations

import msgspec

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.patterns import pattern

_UNITS = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,  # micro sign
    "\u03bcs": 1_000,  # Greek small letter mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_SECOND = _UNITS["s"]
_MAXIMUM = 2**63 - 1  # a Go duration is an int64
_PART = pattern(r"([0-9]*)(\.[0-9]*)?([^0-9.]*)")


class GoDuration(msgspec.Struct, frozen=True, order=True):
    """A duration, exact to the nanosecond. Prints as Go prints it."""

    nanoseconds: int

    @classmethod
    def of_seconds(cls, seconds: float) -> GoDuration:
        """The duration of a number of seconds, rounded to the nearest nanosecond."""
        return cls(round(seconds * _SECOND))

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        return self.nanoseconds / _SECOND

    def __str__(self) -> str:
        sign = "-" if self.nanoseconds < 0 else ""
        return sign + _print(abs(self.nanoseconds))


def parse(text: str) -> GoDuration:
    """Parse a Go duration: an optional sign and decimal numbers, each with a unit (ns, us, ms, s, m, h).

    Raises:
        InputError: the text is not a duration; the message is Go's.
    """
    unsigned = text[1:] if text[:1] in {"-", "+"} else text
    if unsigned == "0":
        return GoDuration(0)
    parts = _PART.findall(unsigned)
    # findall ends with an empty match, which is the only match of an empty text.
    total = 0
    for whole, fraction, unit in parts[:-1] or parts:
        total += _part_nanoseconds(whole, fraction, unit, text)
        if total > _MAXIMUM + 1:
            raise _invalid(text)
    negative = text[0] == "-"
    if total > _MAXIMUM + negative:
        raise _invalid(text)
    return GoDuration(-total if negative else total)


def _part_nanoseconds(whole: str, fraction: str, unit_name: str, text: str) -> int:
    if not whole and len(fraction) < 2:
        raise _invalid(text)
    amount = _whole(whole, text)
    if not unit_name:
        raise InputError(f"time: missing unit in duration {_quoted(text)}")
    unit = _UNITS.get(unit_name)
    if unit is None:
        raise InputError(f"time: unknown unit {_quoted(unit_name)} in duration {_quoted(text)}")
    return amount * unit + _fraction_nanoseconds(fraction[1:], unit)


def _whole(digits: str, text: str) -> int:
    # Lengths are compared first, because int() takes quadratic time.
    significant = digits.lstrip("0") or "0"
    if len(significant) > len(str(_MAXIMUM)) or int(significant) > _MAXIMUM + 1:
        raise _invalid(text)
    return int(significant)


def _fraction_nanoseconds(digits: str, unit: int) -> int:
    """Compute in floating point, and ignore digits beyond an int64, as Go does."""
    value, scale = 0, 1.0
    for digit in digits:
        longer = value * 10 + int(digit)
        if value > _MAXIMUM // 10 or longer > _MAXIMUM + 1:
            break
        value, scale = longer, scale * 10
    return int(float(value) * (unit / scale))


def _invalid(text: str) -> InputError:
    return InputError(f"time: invalid duration {_quoted(text)}")


def _quoted(text: str) -> str:
    """Quote as Go's ``time`` package does, which escapes non-ASCII by bytes, unlike ``%q``."""
    return '"' + "".join(_quoted_character(character) for character in text) + '"'


def _quoted_character(character: str) -> str:
    if character < " " or character > "\x7f":
        return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
    return f"\\{character}" if character in '"\\' else character


def _print(nanoseconds: int) -> str:
    if nanoseconds == 0:
        return "0s"
    for name in ("ns", "\u00b5s", "ms"):
        if nanoseconds < _UNITS[name] * 1000:
            return _decimal(nanoseconds, _UNITS[name]) + name
    minutes, rest = divmod(nanoseconds, _UNITS["m"])
    hours, minutes_left = divmod(minutes, 60)
    seconds = f"{_decimal(rest, _SECOND)}s"
    if hours:
        return f"{hours}h{minutes_left}m{seconds}"
    return f"{minutes}m{seconds}" if minutes else seconds


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    if not rest:
        return str(whole)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0")
