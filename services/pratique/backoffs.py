"""Backoffs: asking a backend again, after waits that grow, where another time may go better.

Sources: ``WithExponentialBackoff`` and ``DefaultShouldRetry`` in ``k8s.io/apiserver/pkg/util/webhook/webhook.go``,
``Backoff.Step`` in ``k8s.io/apimachinery/pkg/util/wait/backoff.go``, and ``k8s.io/apimachinery/pkg/api/errors``.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from typing import TYPE_CHECKING, TypeVar

import tenacity

from pratique.errors import BadAnswerError, ResetError
from pratique.statuses import has_reason

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pratique.calls import Deadline
    from pratique.statuses import Status

_Answer = TypeVar("_Answer")

_RETRIED = ((500, "InternalError"), (504, "Timeout"), (429, "TooManyRequests"))
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


async def retried(
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
    known = any(has_reason(status, code, reason) for code, reason in _RETRIED)
    return delayed or known or status.code == 429
