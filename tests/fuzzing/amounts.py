"""Bytes to amounts: quantities, and spans of time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from pratique.apimachinery import durations
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.quantities import Quantity

ONE = Quantity.parse("1")


@contextlib.contextmanager
def opened(_folder: Path) -> Iterator[Callable[[bytes], bool]]:
    """There is nothing to make."""
    yield attempt


def attempt(data: bytes) -> bool:
    """Read a text as a quantity, calculate with it and write it; and as a span of time."""
    text = data.decode("utf-8", "surrogateescape")
    understood = [_is_quantity(text), _is_duration(text)]
    return any(understood)


def _is_quantity(text: str) -> bool:
    try:
        quantity = Quantity.parse(text)
    except InputError:
        return False
    assert Quantity.parse(str(quantity)) == quantity
    assert (quantity - ONE).compare(quantity + ONE) <= 0
    quantity.rounded_up(0)
    quantity.ceiling()
    quantity.as_integer()
    quantity.as_float()
    return True


def _is_duration(text: str) -> bool:
    try:
        duration = durations.parse(text)
    except InputError:
        return False
    assert durations.parse(str(duration)) == duration
    return True


def seeds() -> Iterator[bytes]:
    """Every suffix, and what is at the edge."""
    yield from (f"{number}{suffix}".encode() for number in ("1", "-.5", "+100.") for suffix in SUFFIXES)
    yield from (
        b"9223372036854775807",
        b"9223372036854775808Ki",
        b"1e9999999",
        b"0.0000000001",
        b"1E-19",
        b"",
    )
    yield from (b"1h2m3.5s", b"-1.5us", b"9223372036854775807ns", b"9223372036854775808ns", b".s", b"0")


SUFFIXES = ("", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-3")
