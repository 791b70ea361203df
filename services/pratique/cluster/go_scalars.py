"""Texts that Go reads as something else and writes in a form of its own: times, quantities and base64.

Sources: ``k8s.io/apimachinery/pkg/apis/meta/v1/{time,micro_time}.go``, ``pkg/api/resource/quantity.go`` and, of Go,
``time/format.go`` and ``encoding/base64``.
"""

from __future__ import annotations

import base64
import binascii
import calendar
import datetime as dt
import functools
import re

from pratique.apimachinery.errors import PratiqueError
from pratique.apimachinery.go_formats import decode_base64
from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.quantities import Quantity, QuantityError, QuantityFormat

TIME_LAYOUT = "2006-01-02T15:04:05Z07:00"
MICRO_TIME_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"

_Step = tuple[str, re.Pattern[str], str, range]


def _step(layout: str, text: str, what: str = "", allowed: range = range(10_000)) -> _Step:
    return layout, pattern(text, re.ASCII), what, allowed


_ZONE = _step("Z07:00", r"Z|[+-](\d{2}):(\d{2})", "zone")
_DATE_STEPS = (
    _step("2006", r"(\d{4})", "year"), _step("-", "-"), _step("01", r"(\d{2})", "month", range(1, 13)),
    _step("-", "-"), _step("02", r"(\d{2})", "day"), _step("T", "T"), _step("15", r"(\d{1,2})", "hour", range(24)),
    _step(":", ":"), _step("04", r"(\d{2})", "minute", range(60)), _step(":", ":"),
)  # fmt: skip
_STEPS = {
    TIME_LAYOUT: (*_DATE_STEPS, _step("05", r"(\d{2})(?:[.,]\d+)?", "second", range(60)), _ZONE),
    MICRO_TIME_LAYOUT: (
        *_DATE_STEPS,
        _step("05", r"(\d{2})", "second", range(60)),
        _step(".000000", r"[.,](\d{6})", "fraction", range(1_000_000)),
        _ZONE,
    ),
}
_CANONICAL_TIME = pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{6})?Z", re.ASCII)


ZERO_TIMES = ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z")
"""What Go takes for no time at all."""


class GoScalarError(PratiqueError):
    """A text cannot be read. The message is Go's."""


_LONGEST_REMEMBERED = 64
"""Characters of a time that is remembered: twice the usual ones, of which any number could have a million digits."""


def canonical_time(text: str, layout: str = TIME_LAYOUT) -> str:
    """A time as Go writes it after reading it: in UTC, with as many digits as the layout has.

    Raises:
        GoScalarError: the text is not a time; the message quotes the rest from the mismatch on.
    """
    return _known_time(text, layout) if len(text) <= _LONGEST_REMEMBERED else _read_time(text, layout)


def _read_time(text: str, layout: str) -> str:
    parts = _time_parts(text, layout)
    days = calendar.monthrange(parts["year"] or 4, parts["month"])[1]
    if not 1 <= parts["day"] <= days:
        raise GoScalarError(f"parsing time {_quoted(text)}: day out of range")
    if parts["year"] == 0:
        return text  # Python has no year 0
    read = dt.datetime(*(parts[name] for name in ("year", "month", "day", "hour", "minute", "second")))  # type: ignore[arg-type] # noqa: DTZ001 - in UTC after the next line
    try:
        read -= dt.timedelta(minutes=parts.get("zone", 0))
    except OverflowError:
        return text
    fraction = f".{parts['fraction']:06}" if layout == MICRO_TIME_LAYOUT else ""
    return f"{read:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + f"{fraction}Z"


_known_time = functools.lru_cache(maxsize=1024)(_read_time)


def _time_parts(text: str, layout: str) -> dict[str, int]:
    rest, parts = text, dict[str, int]()
    for step, digits, what, allowed in _STEPS[layout]:
        found = digits.match(rest)
        if found is None:
            problem = f"cannot parse {_quoted(rest)} as {_quoted(step)}"
            raise GoScalarError(f"parsing time {_quoted(text)} as {_quoted(layout)}: {problem}")
        rest = rest[found.end() :]
        if what == "zone":
            parts[what] = _zone_minutes(text, found)
        elif what:
            parts[what] = int(found[1])
            if parts[what] not in allowed:
                raise GoScalarError(f"parsing time {_quoted(text)}: {what} out of range")
    if rest:
        raise GoScalarError(f"parsing time {_quoted(text)}: extra text: {_quoted(rest)}")
    return parts


def _quoted(text: str) -> str:
    """Quote a text as ``time`` does, which escapes every byte that is not ASCII."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character < " " or character > "\x7f":
        return "".join(f"\\x{byte:02x}" for byte in character.encode())
    return f"\\{character}" if character in '"\\' else character


def _zone_minutes(text: str, found: re.Match[str]) -> int:
    if found[1] is None:
        return 0
    hours, minutes = int(found[1]), int(found[2])
    for number, most, what in ((hours, 24, "hour"), (minutes, 60, "minute")):
        if number > most:
            raise GoScalarError(f"parsing time {_quoted(text)}: time zone offset {what} out of range")
    return (hours * 60 + minutes) * (-1 if found[0].startswith("-") else 1)


@functools.lru_cache(maxsize=4096)
def canonical_quantity(text: str) -> str:
    """A quantity as Go writes it after reading it: ``1500m`` for ``1.5``.

    Raises:
        GoScalarError: the text is not a quantity.
    """
    text = text.strip()
    try:
        quantity = Quantity.parse(text)
    except QuantityError as error:
        raise GoScalarError(str(error)) from None
    return text if _keeps_text(text, quantity) else str(quantity)


def _keeps_text(text: str, quantity: Quantity) -> bool:
    """Whether Go takes a text for the canonical one, which some are not, such as ``+5``, ``1E3`` and ``1.001k``."""
    found = _DIGITS.match(text)
    if quantity.is_big or found is None:
        return text == "0"
    digits = (found[1] or "0") + (found[2] or "")
    if quantity.format is QuantityFormat.BINARY_SI:
        return int(digits) & 7 != 0
    return quantity.scale % 3 == 0 and not digits.endswith("000") and not digits.startswith("0")


_DIGITS = pattern(r"[+-]?0*(\d*)(?:\.(\d*))?", re.ASCII)


def canonical_bytes(text: str) -> str:
    """Base64 as Go writes it after reading it: without line ends.

    Raises:
        GoScalarError: it is not base64.
    """
    try:
        return base64.b64encode(decode_base64(text)).decode()
    except ValueError as error:
        raise GoScalarError(str(error)) from None


def is_canonical_time(value: JSON, layout: str) -> bool:
    """Whether a value is a time in the form in which Go writes it."""
    if type(value) is not str or _CANONICAL_TIME.fullmatch(value) is None or value in ZERO_TIMES:
        return False
    try:
        return canonical_time(value, layout) == value
    except GoScalarError:
        return False


def is_canonical_quantity(value: JSON) -> bool:
    """Whether a value is a quantity in the form in which Go writes it."""
    if type(value) is not str:
        return False
    try:
        return canonical_quantity(value) == value
    except GoScalarError:
        return False


def is_canonical_base64(value: JSON) -> bool:
    """Whether a value is base64 in the form in which Go writes it."""
    if type(value) is not str:
        return False
    try:
        return (
            binascii.b2a_base64(binascii.a2b_base64(value, strict_mode=True), newline=False) == value.encode()
        )
    except ValueError:
        return False
