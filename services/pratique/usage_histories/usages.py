"""Usages: what a history is asked, what it answers, and the Protocol in between."""

from __future__ import annotations

import dataclasses
import math
from typing import Protocol

from pratique.errors import PratiqueError


class UsageHistoryError(PratiqueError):
    """A history cannot be read. The text says why, and holds nothing of any reviewed object."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UsageQuery:
    """How much of a resource did the containers of an image use in a span of time?"""

    resource: str
    """``cpu`` or ``memory``."""
    percentile: int
    """From 1 to 100: so many in a hundred samples are to be at or below the answer."""
    image: str
    """The image as Pods name it, tag or digest included; without them where ``any_tag`` is true."""
    any_tag: bool = False
    """Samples of the image count whatever their tag or digest."""
    namespace: str = ""
    """Samples of Pods of this namespace count; empty: of all."""
    start: int
    """Later samples count: seconds since 1970, UTC."""
    end: int
    """Samples up to then count: seconds since 1970, UTC."""


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """A percentile of samples."""

    amount: int = 0
    """Millicores of cpu or bytes of memory, rounded up. Means nothing where there are no samples."""
    samples: int = 0
    """How many there are."""


NO_SAMPLES = Usage()
"""Nothing is known."""


class UsageHistory(Protocol):
    """Somewhere that usage has been written down."""

    async def usage(self, query: UsageQuery) -> Usage:
        """Find a percentile of the samples that a query asks for.

        Whoever asks may give up waiting; nothing goes on then.

        Raises:
            UsageHistoryError: the history cannot be read.
        """

    async def close(self) -> None:
        """Let go of all that is held open. Nothing is asked afterwards."""


def amount_of(value: float) -> int:
    """Round an amount up to the whole; nobody is promised less than was used.

    Raises:
        UsageHistoryError: it is not a number that an amount can be.
    """
    # A Quantity is an int64 in Kubernetes.
    if not math.isfinite(value) or not 0 <= value < 2**63:
        raise UsageHistoryError("an amount in the history is out of range")
    return math.ceil(value)
