"""Controllers among the metrics: how long each took, how it ended, and what waits for it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, assert_never

from pratique.admission.outcomes import Allowed, Denied, Failed, FailureKind, Patched
from pratique.telemetry.metrics import DurationHistogram, CallbackMetric

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prometheus_client.metrics_core import Metric

    from pratique.admission.controllers import Phase
    from pratique.admission.outcomes import OutcomeDecision, Outcome
    from pratique.hosting.running import HandlerRunner
    from pratique.processes.thread_pool import ControllerThreads

_CONTROLLER_BUCKETS = (0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0)
"""Seconds. The quickest built-in controllers take 5 microseconds; nothing has more than 30 s."""


class ControllerMetrics:
    """The controllers that one service hosts."""

    def __init__(self, phase: Phase, runners: Mapping[str, HandlerRunner]) -> None:
        """Start at zero; ``runners`` are all that are hosted, by name."""
        self._phase = phase.value
        self._runners = runners
        self._seconds = DurationHistogram(
            "pratique_controller_duration_seconds",
            "Time that controllers took, by name, phase and outcome.",
            _CONTROLLER_BUCKETS,
            ("name", "phase", "outcome"),
        )

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Count what came of one call."""
        for one in outcomes:
            # Names that are not hosted are whatever the caller made up: series without end.
            name = one.controller if one.controller in self._runners else "unknown"
            self._seconds.observe(one.duration_seconds, name, self._phase, _outcome_label(one.decision))

    def collect(self) -> Iterator[Metric]:
        """Yield all of them, for a registry."""
        yield from self._seconds.collect()
        lanes: list[tuple[str, str, Callable[[ControllerThreads], int]]] = [
            ("threads", "Threads that run a controller, or wait for work.", lambda lane: lane.threads),
            ("queued_calls", "Calls of a controller that wait for a thread.", lambda lane: lane.waiting),
            (
                "stuck_threads",
                "Threads of a controller that go on though nobody waits for them any longer.",
                lambda lane: lane.abandoned,
            ),
        ]
        for name, documentation, read in lanes:
            yield from CallbackMetric(
                f"pratique_controller_{name}", documentation, functools.partial(self._of_lanes, read), "name"
            ).collect()

    def _of_lanes(self, read: Callable[[ControllerThreads], int]) -> dict[tuple[str, ...], float]:
        return {(one.name,): read(one.lane) for one in self._runners.values() if one.lane is not None}


def _outcome_label(decision: OutcomeDecision) -> str:
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
