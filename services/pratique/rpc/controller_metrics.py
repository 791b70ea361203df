"""Metrics of the controllers that a process hosts, with or without gRPC."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, assert_never

from pratique.admission.controllers import Phase
from pratique.admission.results import Allowed, Denied, Failed, FailureKind, Outcome, Patched
from pratique.processes.thread_pool import ControllerThreads
from pratique.telemetry.metrics import CallbackMetric, DurationHistogram

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_CONTROLLER_BUCKETS = (0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0)
"""In seconds. The fastest built-in controllers take 5 microseconds, and no call lasts longer than 30 s."""


class HasThreads(Protocol):
    """A hosted controller, as far as metrics need it."""

    @property
    def threads(self) -> ControllerThreads | None:
        """Where it runs; None on the event loop."""


class ControllerMetrics:
    """Durations and threads of the controllers that a service hosts."""

    def __init__(self, phase: Phase, controllers: Mapping[str, HasThreads]) -> None:
        """Start at zero, for the hosted controllers by name."""
        self._phase = phase.value
        self._controllers = controllers
        self._seconds = DurationHistogram(
            "pratique_controller_duration_seconds",
            "Time that controllers took, by name, phase and outcome.",
            _CONTROLLER_BUCKETS,
            ("name", "phase", "outcome"),
        )

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Count the outcomes of one call."""
        for outcome in outcomes:
            # Callers can invent any name that is not hosted, and each would be another series.
            name = outcome.controller if outcome.controller in self._controllers else "unknown"
            self._seconds.observe(outcome.duration_seconds, name, self._phase, _outcome_label(outcome))

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, for a registry."""
        yield from self._seconds.collect()
        gauges: list[tuple[str, str, Callable[[ControllerThreads], int]]] = [
            ("threads", "Threads that run a controller, or wait for work.", lambda threads: threads.threads),
            (
                "queued_calls",
                "Calls of a controller that wait for a thread.",
                lambda threads: threads.waiting,
            ),
            (
                "stuck_threads",
                "Threads of a controller that go on though nobody waits for them any longer.",
                lambda threads: threads.abandoned,
            ),
        ]
        for name, documentation, read in gauges:
            yield from CallbackMetric(
                f"pratique_controller_{name}", documentation, functools.partial(self._by_name, read), "name"
            ).collect()

    def _by_name(self, read: Callable[[ControllerThreads], int]) -> dict[tuple[str, ...], float]:
        return {
            (name,): read(controller.threads)
            for name, controller in self._controllers.items()
            if controller.threads is not None
        }


def _outcome_label(outcome: Outcome) -> str:
    if len(outcome.policy_outcomes) == 1 and outcome.policy_outcomes[0].name == outcome.controller:
        # Selectors or conditions kept the controller out, or it failed open.
        return outcome.policy_outcomes[0].status.value
    decision = outcome.decision
    match decision:
        case Allowed():
            return "allowed"
        case Patched():
            return "mutated"
        case Denied():
            return "denied"
        case Failed(kind):
            return "timeout" if kind is FailureKind.TIMEOUT else "failed"
        case _:
            assert_never(decision)
