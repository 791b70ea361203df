"""Usage as text, as it is stored: canonical quantities, exact, never floats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pratique.quantities import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pratique.ledgers.protocols import Usage

_ZERO = Quantity(0)
_ENCODER = msgspec.json.Encoder(order="sorted")
_DECODER = msgspec.json.Decoder(dict[str, str])


def to_text(usage: Usage) -> str:
    """Write usage as a JSON object of canonical quantities; equal texts are equal usage."""
    return _ENCODER.encode({name: str(amount) for name, amount in usage.items()}).decode()


def from_text(text: str) -> dict[str, Quantity]:
    """Read usage.

    Raises:
        msgspec.DecodeError: the text is not what ``to_text`` writes.
        QuantityError: one of the amounts is none.
    """
    return {name: Quantity.parse(amount) for name, amount in _DECODER.decode(text).items()}


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
