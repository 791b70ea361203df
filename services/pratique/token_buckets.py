"""Token buckets: how often something may happen, with a burst above that, for each of many keys.

Source: ``golang.org/x/time/rate/rate.go`` ``Limiter.AllowN``, rounding included, as ``TryAccept`` of
``k8s.io/client-go/util/flowcontrol/throttle.go`` calls it.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import TYPE_CHECKING

import cachetools

if TYPE_CHECKING:
    from collections.abc import MutableMapping

_SECOND = 1_000_000_000
"""Nanoseconds."""

_DIGEST_BYTES = 16
"""Two of 2**32 keys have the same digest with a probability of 2**-65."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rate:
    """How often something may happen."""

    per_second: int
    """Tokens that flow into a bucket in a second."""
    burst: int
    """Tokens that a bucket holds; it is full at first."""


class TokenBucket:
    """Tokens that are there to be taken, as many as flow in."""

    __slots__ = ("_at", "_tokens")

    def __init__(self, tokens: int) -> None:
        """Hold ``tokens`` from the first use on."""
        self._tokens: float = tokens
        self._at: int | None = None

    def take(self, rate: Rate, now: int) -> bool:
        """Take one token if there is one, and tell whether there was.

        Args:
            rate: How fast the bucket is filled, and how much it holds.
            now: The time on a clock that never goes back, in nanoseconds.
        """
        passed = 0 if self._at is None else now - self._at
        left = min(self._tokens + _seconds(passed) * rate.per_second, rate.burst) - 1
        # What is there within the nanosecond counts as there.
        if left < 0 and int(-left / rate.per_second * _SECOND) > 0:
            return False
        self._tokens, self._at = left, now
        return True


def _seconds(nanoseconds: int) -> float:
    """Go's ``Duration.Seconds``: whole seconds and the rest, each as a float."""
    seconds, rest = divmod(nanoseconds, _SECOND)
    return seconds + rest / _SECOND


class TokenBuckets:
    """A bucket for each key. Those used least recently are forgotten, and full when they are wanted again.

    Whoever chooses the keys cannot fill the memory: of a key its digest is kept, however long it is, so that what
    is held depends on ``size`` alone. No more than :data:`BYTES_OF_A_BUCKET` each is taken.
    """

    def __init__(self, rate: Rate, size: int) -> None:
        """Hold at most ``size`` buckets."""
        self._rate = rate
        self._buckets: MutableMapping[bytes, TokenBucket] = cachetools.LRUCache(size)

    def __len__(self) -> int:
        """How many buckets are held."""
        return len(self._buckets)

    def take(self, key: str, now: int) -> bool:
        """Take one token of a key's bucket if there is one, and tell whether there was."""
        digest = _digest(key)
        bucket = self._buckets.get(digest)
        if bucket is None:
            bucket = self._buckets[digest] = TokenBucket(self._rate.burst)
        return bucket.take(self._rate, now)


def _digest(key: str) -> bytes:
    # JSON may bring halves of surrogate pairs, which have no UTF-8 of their own.
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()


BYTES_OF_A_BUCKET = 512
"""The most memory that a bucket takes, with its key and its place in the cache.

On a 64-bit CPython, as allocated: key 64, bucket 48, its float 32 and its integer 32, together 176. The cache has two
dictionaries. Right after one has grown, its table has up to six places for each key, of an index of 4 bytes, and
two thirds of them hold an entry of 24: 120 each, 240 for both. The order of use adds a node of 32 to each key, and a
reference of 8 to each place: 80. That makes 496.
"""
