"""Rate limits and retries, as in client-go and apiserver."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.errors import BadAnswerError, CallTimeoutError, ResetError, UnreachableError
from pratique.apimachinery.flow_control import (
    Backoff,
    Rate,
    TokenBuckets,
    retry_with_backoff,
    should_retry,
)
from pratique.apimachinery.statuses import Status, StatusDetails

SECOND = 1_000_000_000


def answered(code: int, reason: str = "", *, retry_after: int = 0) -> BadAnswerError:
    details = StatusDetails(retry_after_seconds=retry_after) if retry_after else None
    return BadAnswerError("no", code, Status(code=code, reason=reason, details=details))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ResetError("reset"), True),
        (UnreachableError("refused"), False),
        (CallTimeoutError("late"), False),
        (BadAnswerError("garbled"), False),
        (ValueError(), False),
        (answered(500, "InternalError"), True),
        (answered(500), True),
        (answered(504), True),
        (answered(429), True),
        (answered(429, "Forbidden"), True),
        (answered(503, "ServiceUnavailable"), False),
        (answered(500, "Forbidden"), False),
        (answered(404, "NotFound"), False),
        (answered(404, "NotFound", retry_after=1), True),
    ],
)
def test_only_transient_errors_are_retried(error: BaseException, *, expected: bool) -> None:
    assert should_retry(error) is expected


@given(st.integers(1, 10))
def test_delays_grow_by_the_factor_and_jitter(attempt: int) -> None:
    base = 0.5 * 1.5 ** (attempt - 1)
    assert base <= Backoff(0.5).wait(attempt) <= base * 1.2


def attempts_until(errors: list[Exception], *, remaining: float = 60.0) -> tuple[int, list[float]]:
    """How often a call is attempted that raises ``errors`` first, and the delays in between."""
    calls, delays = [], []

    async def call() -> str:
        calls.append(1)
        if len(calls) <= len(errors):
            raise errors[len(calls) - 1]
        return "done"

    async def sleep(seconds: float) -> None:
        delays.append(seconds)

    limit = SimpleNamespace(remaining_seconds=remaining)
    try:
        asyncio.run(retry_with_backoff(call, Backoff(1.0, jitter=0.0), limit, sleep))
    except (BadAnswerError, ResetError) as error:
        assert error is errors[len(calls) - 1]  # noqa: PT017 - some calls fail
    return len(calls), delays


def test_a_call_that_succeeds_is_made_once() -> None:
    assert attempts_until([]) == (1, [])


def test_a_transient_error_is_retried_after_a_delay() -> None:
    assert attempts_until([ResetError("a"), answered(500)]) == (3, [1.0, 1.5])


def test_a_permanent_error_ends_the_attempts() -> None:
    assert attempts_until([ResetError("a"), answered(403, "Forbidden"), ResetError("b")]) == (2, [1.0])


def test_the_last_of_five_attempts_raises() -> None:
    assert attempts_until([ResetError(str(number)) for number in range(9)]) == (5, [1.0, 1.5, 2.25, 3.375])


def test_no_attempt_is_made_after_the_deadline() -> None:
    assert attempts_until([ResetError(str(number)) for number in range(9)], remaining=2.0) == (3, [1.0, 1.5])


def test_a_bucket_starts_full_and_refills_at_its_rate() -> None:
    buckets = TokenBuckets(Rate(per_second=2, burst=3), size=10)
    assert [buckets.take("a", 0) for _ in range(4)] == [True, True, True, False]
    assert [buckets.take("a", SECOND // 2), buckets.take("a", SECOND // 2)] == [True, False]
    assert [buckets.take("a", 100 * SECOND) for _ in range(4)] == [True, True, True, False]


def test_keys_have_buckets_of_their_own_and_the_oldest_is_dropped() -> None:
    buckets = TokenBuckets(Rate(per_second=1, burst=1), size=2)
    assert all(buckets.take(key, 0) for key in ("a", "b", "\ud800"))
    assert len(buckets) == 2
    assert [buckets.take(key, 0) for key in ("\ud800", "b", "a")] == [False, False, True]
