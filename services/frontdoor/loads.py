"""Loads: how many bytes of reviews are held at a time, and the refusal of more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frontdoor.requests import RequestError
from pratique import statuses

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

LIGHTEST_REVIEW_BYTES = 64 * 1024
"""What a review counts for at least once it is complete: small ones cost objects and tasks, not bytes."""


class Load:
    """The bytes that all requests together hold."""

    __slots__ = ("held_bytes", "limit_bytes", "reviews", "shed")

    def __init__(self, limit_bytes: int) -> None:
        """Start with nothing held."""
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self.reviews = 0
        """How many share it now."""
        self.shed = 0
        """How often it would have been too much."""

    def change(self, difference: int) -> None:
        """Hold more, or less.

        Raises:
            RequestError: it would be too much (503). Nothing is changed then.
        """
        if difference > 0 and self.held_bytes + difference > self.limit_bytes:
            self.shed += 1
            text = "the server is currently unable to handle the request: too many reviews are in flight"
            raise RequestError(statuses.service_unavailable(text))
        self.held_bytes += difference


class Share:
    """What one request holds, until the ``with`` ends."""

    __slots__ = ("_bytes", "_load")

    def __init__(self, load: Load) -> None:
        """Start with nothing held."""
        self._load = load
        self._bytes = 0

    def hold(self, size: int) -> None:
        """Hold that many more bytes; raises RequestError (503) where that is too much."""
        self._load.change(size)
        self._bytes += size

    def complete(self) -> None:
        """Count the request as a review; until then, a client that sends nothing costs nothing."""
        if self._bytes < LIGHTEST_REVIEW_BYTES:
            self.hold(LIGHTEST_REVIEW_BYTES - self._bytes)

    def __enter__(self) -> Self:
        self._load.reviews += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._load.reviews -= 1
        self._load.change(-self._bytes)
