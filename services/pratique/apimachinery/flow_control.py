"""Rate limits and retries, as in client-go's ``util/flowcontrol`` and apiserver's ``util/webhook``."""

from __future__ import annotations

import asyncio
import hashlib
import random
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Protocol, TypeVar

import cachetools
import msgspec

from pratique.apimachinery.errors import BadAnswerError, ResetError
from pratique.apimachinery.statuses import Status, has_reason

_SECOND = 1_000_000_000
"""Nanoseconds."""

_DIGEST_BYTES = 16
"""Two of 2**32 keys have the same digest with a probability of 2**-65."""


class Rate(msgspec.Struct, frozen=True):
    """A rate limit."""

    per_second: int
    """Tokens added to a bucket per second."""
    burst: int
    """The capacity of a bucket, which starts full."""


class TokenBucket:
    """A token bucket."""

    __slots__ = ("_at", "_tokens")

    def __init__(self, tokens: int) -> None:
        """Start with ``tokens``; the clock starts with the first use."""
        self._tokens: float = tokens
        self._at: int | None = None

    def take(self, rate: Rate, now: int) -> bool:
        """Take one token; False if there is none.

        Args:
            rate: The refill rate and the capacity.
            now: A monotonic time in nanoseconds.
        """
        passed = 0 if self._at is None else now - self._at
        left = min(self._tokens + _seconds(passed) * rate.per_second, rate.burst) - 1
        # A token that is due within the nanosecond counts as available.
        if left < 0 and int(-left / rate.per_second * _SECOND) > 0:
            return False
        self._tokens, self._at = left, now
        return True


def _seconds(nanoseconds: int) -> float:
    """Go's ``Duration.Seconds``: whole seconds plus the rest, each converted to a float."""
    seconds, rest = divmod(nanoseconds, _SECOND)
    return seconds + rest / _SECOND


class TokenBuckets:
    """One bucket per key. The least recently used are dropped, and start full when they are needed again.

    Keys cannot exhaust memory: only their digests are stored, so memory depends on ``size`` alone, with at most
    :data:`MAX_BUCKET_BYTES` per bucket.
    """

    def __init__(self, rate: Rate, size: int) -> None:
        """Hold at most ``size`` buckets."""
        self._rate = rate
        self._buckets: MutableMapping[bytes, TokenBucket] = cachetools.LRUCache(size)
        self._lock = threading.Lock()  # large reviews come in threads

    def __len__(self) -> int:
        """The number of buckets held."""
        return len(self._buckets)

    def take(self, key: str, now: int) -> bool:
        """Take one token from the bucket of a key; False if there is none."""
        digest = _digest(key)
        with self._lock:
            bucket = self._buckets.get(digest)
            if bucket is None:
                bucket = self._buckets[digest] = TokenBucket(self._rate.burst)
            return bucket.take(self._rate, now)


def _digest(key: str) -> bytes:
    # JSON may contain lone surrogates, which have no UTF-8 encoding.
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()


MAX_BUCKET_BYTES = 512
"""The most memory that a bucket takes, with its key and its share of the cache.

On a 64-bit CPython, as allocated: key 64, bucket 48, its float 32 and its integer 32, together 176. The cache has two
dictionaries. Right after one has grown, its table has up to six slots per key, each with an index of 4 bytes, and
two thirds of them with an entry of 24: 120 per dictionary, 240 for both. The LRU order adds a node of 32 per key and a
reference of 8 per slot: 80. That makes 496.
"""


_Answer = TypeVar("_Answer")

_RETRYABLE = ((500, "InternalError"), (504, "Timeout"), (429, "TooManyRequests"))
"""The Status codes and reasons that are retried; the code counts only if the reason is not one of Kubernetes'. 501, 502
and codes above 504 arrive as an ``InternalError``; 503 is not retried."""


class Backoff(msgspec.Struct, frozen=True):
    """A retry schedule: ``DefaultRetryBackoffWithInitialDelay``."""

    seconds: float
    """The first delay, in seconds."""
    factor: float = 1.5
    """The factor between successive delays."""
    jitter: float = 0.2
    """The largest random extension of a delay, as a fraction of it."""
    steps: int = 5
    """The maximum number of attempts."""

    def wait(self, attempt: int) -> float:
        """The delay in seconds after an attempt; attempts count from 1."""
        base = self.seconds * self.factor ** (attempt - 1)
        return base * (1 + self.jitter * random.random())  # noqa: S311  # spreads load, guards nothing


class RemainingTime(Protocol):
    """A deadline, as far as retries need it."""

    @property
    def remaining_seconds(self) -> float:
        """The time left, in seconds."""


async def retry_with_backoff(
    ask: Callable[[], Awaitable[_Answer]],
    backoff: Backoff,
    deadline: RemainingTime,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> _Answer:
    """Call until it succeeds, fails for good, or no further attempt fits the deadline: ``WithExponentialBackoff``.

    Raises:
        CallError: that of the last attempt.
    """
    import tenacity  # noqa: PLC0415 - only calls of backends and API servers are tried again

    async def attempt() -> _Answer:
        # tenacity awaits only what it recognizes as a coroutine function.
        return await ask()

    retrying = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception(should_retry),
        wait=lambda state: backoff.wait(state.attempt_number),
        stop=lambda state: (
            state.attempt_number >= backoff.steps or state.upcoming_sleep >= deadline.remaining_seconds
        ),
        sleep=sleep,
        reraise=True,
    )
    return await retrying(attempt)


def should_retry(error: BaseException) -> bool:
    """Tell whether another attempt may succeed: ``DefaultShouldRetry``."""
    if isinstance(error, ResetError):
        return True
    status = error.status if isinstance(error, BadAnswerError) else None
    return status is not None and _is_transient(status)


def _is_transient(status: Status) -> bool:
    details = status.details
    delayed = details is not None and (status.reason == "ServerTimeout" or details.retry_after_seconds > 0)
    known = any(has_reason(status, code, reason) for code, reason in _RETRYABLE)
    return delayed or known or status.code == 429
