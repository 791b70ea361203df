"""Usage as text, as it is stored: canonical quantities, exact, never floats, and a checksum before them."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import msgspec

from pratique.quantities import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pratique.ledgers.protocols import Usage

_ZERO = Quantity(0)
_ENCODER = msgspec.json.Encoder(order="sorted")
_DECODER = msgspec.json.Decoder(dict[str, str])


_CHECKSUM_DIGITS = 8
"""Of a CRC-32 in hexadecimal. A database checks how its pages hang together, not what the texts in them say."""


def to_text(usage: Usage) -> str:
    """Write usage: a checksum, and a JSON object of canonical quantities. Equal texts are equal usage."""
    written = _ENCODER.encode({name: str(amount) for name, amount in usage.items()})
    return _checksum(written) + written.decode()


def from_text(text: str) -> dict[str, Quantity]:
    """Read usage.

    Raises:
        msgspec.DecodeError: the text is not what ``to_text`` writes.
        QuantityError: one of the amounts is none.
    """
    if not is_whole(text):
        raise msgspec.DecodeError("the checksum is another")
    return {name: Quantity.parse(amount) for name, amount in _DECODER.decode(text[_CHECKSUM_DIGITS:]).items()}


def is_whole(text: object) -> bool:
    """Tell whether a text is as :func:`to_text` wrote it."""
    if not isinstance(text, str):
        return False
    return text[:_CHECKSUM_DIGITS] == _checksum(text[_CHECKSUM_DIGITS:].encode("utf-8", "surrogatepass"))


def _checksum(written: bytes) -> str:
    return f"{zlib.crc32(written):08x}"


def growth(old: Usage, new: Usage) -> dict[str, Quantity]:
    """What ``new`` has more of than ``old``. What it has less of is nothing that others may count on yet."""
    differences = {name: amount - old.get(name, _ZERO) for name, amount in new.items()}
    return {name: more for name, more in differences.items() if more.sign > 0}


def total(usages: Iterable[Mapping[str, Quantity]]) -> dict[str, Quantity]:
    """Add usage up, by resource name."""
    amounts: dict[str, Quantity] = {}
    for usage in usages:
        for name, amount in usage.items():
            amounts[name] = amounts[name] + amount if name in amounts else amount
    return amounts
