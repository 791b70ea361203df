"""Token buckets and backoffs, as client-go's ``flowcontrol`` has them."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import random
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, TypeVar

import cachetools
import tenacity

from pratique.apimachinery.errors import BadAnswerError, ResetError
from pratique.apimachinery.statuses import Status, has_reason

if TYPE_CHECKING:
    from pratique.admission.reviews import Deadline

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


MAX_BUCKET_BYTES = 512
"""The most memory that a bucket takes, with its key and its place in the cache.

On a 64-bit CPython, as allocated: key 64, bucket 48, its float 32 and its integer 32, together 176. The cache has two
dictionaries. Right after one has grown, its table has up to six places for each key, of an index of 4 bytes, and
two thirds of them hold an entry of 24: 120 each, 240 for both. The order of use adds a node of 32 to each key, and a
reference of 8 to each place: 80. That makes 496.
"""


_Answer = TypeVar("_Answer")

_RETRYABLE = ((500, "InternalError"), (504, "Timeout"), (429, "TooManyRequests"))
"""What is asked again, by the code where the reason is none that Kubernetes knows. 501, 502 and all above 504 come as
an ``InternalError``; 503 is not among them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait, and how often: ``DefaultRetryBackoffWithInitialDelay``."""

    seconds: float
    """The first wait."""
    factor: float = 1.5
    """By how much each wait is longer than the one before."""
    jitter: float = 0.2
    """Up to which part of itself each wait is made longer, by chance."""
    steps: int = 5
    """How often is asked at most."""

    def wait(self, attempt: int) -> float:
        """How many seconds to wait after an attempt, the first of which is number 1."""
        base = self.seconds * self.factor ** (attempt - 1)
        return base * (1 + self.jitter * random.random())  # noqa: S311  # spreads load, guards nothing


async def retry_with_backoff(
    ask: Callable[[], Awaitable[_Answer]],
    backoff: Backoff,
    deadline: Deadline,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> _Answer:
    """Ask until an answer comes, or an error that another attempt will not mend, or none can come in time.

    Raises:
        CallError: the last attempt's.
    """

    async def attempt() -> _Answer:
        # What tenacity is to await it has to see to be a coroutine function.
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
    """Tell whether another attempt may go better."""
    if isinstance(error, ResetError):
        return True
    status = error.status if isinstance(error, BadAnswerError) else None
    return status is not None and _is_transient(status)


def _is_transient(status: Status) -> bool:
    details = status.details
    delayed = details is not None and (status.reason == "ServerTimeout" or details.retry_after_seconds > 0)
    known = any(has_reason(status, code, reason) for code, reason in _RETRYABLE)
    return delayed or known or status.code == 429
