"""Outages: a service that hosts controllers gave no usable answer, so that nobody decided about the review.

That is no decision. It leaves the front door as HTTP 503 or 504, and the caller's own ``failurePolicy`` decides
(``docs/adr/0021-an-outage-is-the-callers-to-decide.md``).
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from pratique.admission.controllers import Phase
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import CallError, CallTimeoutError, PratiqueError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence
    from typing import Self

    from pratique.admission.calls import Deadline
    from pratique.admission.outcomes import Outcome
    from pratique.apimachinery.statuses import Status

_SERVICES = {Phase.MUTATE: "mutator", Phase.VALIDATE: "validator"}
_DISPLAY_NAMES = {Phase.MUTATE: "the mutator", Phase.VALIDATE: "the validators"}

TIMEOUT = "timeout"
"""The service was asked and did not answer before the review's time was up."""
LATE = "late"
"""The review's time was up before the service could be asked."""
MISMATCH = "mismatch"
"""The service runs another configuration than the front door."""


class OutageError(PratiqueError):
    """Nobody decided about a review, because a service gave no usable answer."""

    def __init__(self, phase: Phase, cause: str, text: str, *, timed_out: bool = False) -> None:
        """Say which service it was, by its phase, why, and what to tell the caller."""
        super().__init__(text)
        self.service = _SERVICES[phase]
        """``mutator`` or ``validator``, as metrics name them."""
        self.cause = cause
        """One of a few words for metrics: ``timeout``, ``late``, ``mismatch``, or the class of the failure:
        ``unreachable``, ``bad_answer``, ``refused``."""
        self.status: Status = statuses.timeout(text) if timed_out else statuses.service_unavailable(text)
        """What the caller is told, with the HTTP code: 504 where time ran out, 503 otherwise."""

    @classmethod
    def timeout(cls, phase: Phase) -> Self:
        """The service was too slow; the text is the same whoever noticed it first."""
        return cls(phase, TIMEOUT, f"{_DISPLAY_NAMES[phase]} did not answer in time", timed_out=True)

    @classmethod
    def late(cls, phase: Phase) -> Self:
        """There was no time left to ask the service."""
        return cls(phase, LATE, f"no time was left to ask {_DISPLAY_NAMES[phase]}", timed_out=True)

    @classmethod
    def mismatch(cls, phase: Phase, controller: str) -> Self:
        """The service does not host a controller that the front door has in its chain."""
        hosted = f"the admission controller {statuses.go_quoted(controller)}"
        return cls(phase, MISMATCH, f"{_DISPLAY_NAMES[phase]} cannot be asked: not configured with {hosted}")

    @classmethod
    def of(cls, phase: Phase, error: CallError) -> Self:
        """Make the outage of a call that failed as a whole, and not for want of time."""
        return cls(phase, _error_cause(error), f"{_DISPLAY_NAMES[phase]} cannot be asked: {error}")


def _error_cause(error: CallError) -> str:
    """The class of a failure as one word: ``BadAnswerError`` is ``bad_answer``."""
    words = re.findall("[A-Z][a-z]+", type(error).__name__.removesuffix("Error"))
    return "_".join(words).lower() if type(error) is not CallError else "refused"


async def await_outcomes(
    phase: Phase, asking: Awaitable[Sequence[Outcome]], deadline: Deadline
) -> Sequence[Outcome]:
    """Wait for what a service answers.

    Whoever notices first that time is up (the service's stream, gRPC, or the front door's limit on the request, which
    cancels this task), it is one and the same outage.

    Raises:
        OutageError: there is no usable answer.
    """
    late = deadline.passed
    try:
        return await asking
    except CallTimeoutError:
        raise (OutageError.late if late else OutageError.timeout)(phase) from None
    except CallError as error:
        raise OutageError.of(phase, error) from None
    except asyncio.CancelledError:
        if not deadline.passed:
            raise
        raise OutageError.timeout(phase) from None
