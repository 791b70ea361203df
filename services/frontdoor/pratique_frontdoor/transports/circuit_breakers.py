"""Circuit breakers: a webhook that keeps failing is not called for a while, and its failure policy decides immediately.

kube-apiserver has none, so they are off by default. A breaker never decides anything: while it is open, a call fails
like any failed call, and ``failurePolicy`` applies.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from pratique.admission.controllers import Phase
from pratique.admission.results import Outcome
from pratique.admission.reviews import Call, Deadline, Review
from pratique.apimachinery.errors import BadAnswerError, CallTimeoutError, UnreachableError
from pratique.telemetry.metrics import CallbackMetric
from pratique_frontdoor.transports import Transport

if TYPE_CHECKING:
    from pratique_frontdoor.settings import FrontDoorSettings

_log = logging.getLogger(__name__)

_MAX_DOUBLINGS = 3
"""How often the open time doubles while trial calls fail: up to 8 times the first. A webhook that has been down for
an hour is tried every 80 s by default, so its recovery is noticed about as fast as that of a restarted Pod."""


class CircuitState(enum.IntEnum):
    """What a circuit does with a call; the number is the value of the metric."""

    CLOSED = 0
    """Calls are made."""
    HALF_OPEN = 1
    """One trial call is made; all others fail immediately."""
    OPEN = 2
    """Every call fails immediately."""


class WebhookCallStatus(enum.Enum):
    """How a call ended, for a circuit."""

    ANSWERED = "answered"
    """The webhook answered, whatever it said."""
    FAILED = "failed"
    """The webhook did not answer."""
    UNKNOWN = "unknown"
    """The call ended too early to tell: cancelled, or the caller allowed too little time."""


class Circuit:
    """The state of one breaker. It does no I/O, and belongs to one event loop.

    A call that began before the circuit last changed says nothing about the webhook now, so its result is ignored: a
    hundred calls that time out together open the circuit once.
    """

    def __init__(
        self,
        failures: int,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        on_change: Callable[[CircuitState], None] = lambda _: None,
    ) -> None:
        """Start closed.

        Args:
            failures: How many consecutive failed calls open it.
            seconds: How long it stays open the first time; each failed trial doubles that, up to 8 times.
            clock: Returns seconds that never decrease.
            on_change: Called once for each change, with the new state.
        """
        self._most_failures, self._seconds = failures, seconds
        self._clock, self._on_change = clock, on_change
        self._failures = self._doublings = self._epoch = 0
        self._open_until: float | None = None
        self._trying = False
        self.opened = 0
        """How often it has opened."""

    @property
    def state(self) -> CircuitState:
        """The present state."""
        if self._open_until is None:
            return CircuitState.CLOSED
        return (
            CircuitState.HALF_OPEN if self._trying or self._clock() >= self._open_until else CircuitState.OPEN
        )

    def begin(self) -> int:
        """Begin a call, and return the ticket that it must be ended with.

        Raises:
            UnreachableError: the circuit is open.
        """
        if self._open_until is not None:
            if self._trying or self._clock() < self._open_until:
                failures = (
                    "1 failed call" if self._failures == 1 else f"{self._failures} failed calls in a row"
                )
                raise UnreachableError(f"failed to call webhook: circuit breaker is open after {failures}")
            self._trying = True
            self._epoch += 1
            self._on_change(CircuitState.HALF_OPEN)
        return self._epoch

    def end(self, ticket: int, ending: WebhookCallStatus) -> None:
        """End the call of a ticket."""
        if ticket != self._epoch:
            return
        tried, self._trying = self._trying, False
        if ending is WebhookCallStatus.ANSWERED:
            self._close()
        elif ending is WebhookCallStatus.FAILED:
            self._failures += 1
            if tried or self._failures >= self._most_failures:
                self._open()

    def _close(self) -> None:
        self._failures = self._doublings = 0
        if self._open_until is not None:
            self._open_until = None
            self._on_change(CircuitState.CLOSED)

    def _open(self) -> None:
        self._open_until = self._clock() + self._seconds * 2**self._doublings
        self._doublings = min(self._doublings + 1, _MAX_DOUBLINGS)
        self._epoch += 1
        self.opened += 1
        self._on_change(CircuitState.OPEN)


class CircuitBreakerTransport(msgspec.Struct, frozen=True):
    """Calls one webhook through another transport, unless its circuit is open."""

    through: Transport
    circuit: Circuit
    default_seconds: float
    """The default timeout of a review."""

    @property
    def endpoint(self) -> str:
        """Where it calls."""
        return self.through.endpoint

    async def mutate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Call a mutating webhook.

        Raises:
            CallError: as the other transport; UnreachableError if the circuit is open.
        """
        with self._watched(calls):
            return await self.through.mutate(review, calls, deadline)

    async def validate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Call a validating webhook.

        Raises:
            CallError: as the other transport; UnreachableError if the circuit is open.
        """
        with self._watched(calls):
            return await self.through.validate(review, calls, deadline)

    async def close(self) -> None:
        """Close connections."""
        await self.through.close()

    @contextlib.contextmanager
    def _watched(self, calls: Sequence[Call]) -> Iterator[None]:
        ticket, began, ending = self.circuit.begin(), time.monotonic(), WebhookCallStatus.UNKNOWN
        try:
            yield
            ending = WebhookCallStatus.ANSWERED
        except BaseException as error:
            ending = self._ending(error, calls, time.monotonic() - began)
            raise
        finally:
            self.circuit.end(ticket, ending)

    def _ending(self, error: BaseException, calls: Sequence[Call], seconds: float) -> WebhookCallStatus:
        if isinstance(error, BadAnswerError):
            return WebhookCallStatus.ANSWERED
        if isinstance(error, UnreachableError):
            return WebhookCallStatus.FAILED
        if not isinstance(error, CallTimeoutError | asyncio.CancelledError):
            return WebhookCallStatus.UNKNOWN
        # Callers choose ?timeout=. A caller with a tiny one must not open the circuit for everybody else.
        allowed = min((call.timeout_seconds or self.default_seconds for call in calls), default=0.0)
        return (
            WebhookCallStatus.FAILED
            if seconds >= min(allowed, self.default_seconds) / 2
            else WebhookCallStatus.UNKNOWN
        )


class CircuitBreakers:
    """The breakers of one configuration. A new configuration starts with new ones."""

    def __init__(self, settings: FrontDoorSettings) -> None:
        """Use the limits of the settings."""
        self._settings = settings
        self._circuits: dict[tuple[str, str, str, str], Circuit] = {}

    def guard(self, transport: Transport, webhook: str, configuration: str, phase: Phase) -> Transport:
        """Return a transport with a circuit breaker; the transport itself if breakers are off."""
        settings = self._settings
        if not settings.webhook_breaker_failures:
            return transport
        key = (configuration, webhook, str(phase), transport.endpoint)

        def on_change(state: CircuitState) -> None:
            level = logging.WARNING if state is CircuitState.OPEN else logging.INFO
            text = f"circuit breaker of a webhook is {state.name.lower().replace('_', '-')}"
            _log.log(
                level, text, extra={"webhook": webhook, "configuration": configuration, "phase": str(phase)}
            )

        circuit = self._circuits.get(key) or self._circuits.setdefault(
            key,
            Circuit(settings.webhook_breaker_failures, settings.webhook_breaker_seconds, on_change=on_change),
        )
        return CircuitBreakerTransport(transport, circuit, settings.default_timeout_seconds)

    def states(self) -> dict[tuple[str, ...], float]:
        """Return the worst state by configuration, webhook and phase."""
        found: dict[tuple[str, ...], float] = {}
        for (*labels, _), circuit in self._circuits.items():
            found[tuple(labels)] = max(found.get(tuple(labels), 0), circuit.state)
        return found

    def opened(self) -> dict[tuple[str, ...], float]:
        """Return how often circuits have opened, by configuration, webhook and phase."""
        found: dict[tuple[str, ...], float] = {}
        for (*labels, _), circuit in self._circuits.items():
            found[tuple(labels)] = found.get(tuple(labels), 0) + circuit.opened
        return found

    def warnings(self) -> list[str]:
        """Return a warning for each webhook that is not called now."""
        return [
            f"circuit breaker of {phase} webhook {webhook} of {configuration} is not closed"
            for (configuration, webhook, phase), state in self.states().items()
            if state
        ]


def breaker_metrics(current: Callable[[], CircuitBreakers]) -> tuple[CallbackMetric, CallbackMetric]:
    """Return metrics of the breakers in force, read on every scrape."""
    labels = ("configuration", "name", "phase")
    state = "Circuit breakers of webhooks: 0 closed, 1 half-open, 2 open."
    opened = "How often circuit breakers have opened since the configuration was read."
    return (
        CallbackMetric("pratique_webhook_breaker_state", state, lambda: current().states(), *labels),
        CallbackMetric("pratique_webhook_breaker_opened_total", opened, lambda: current().opened(), *labels),
    )
