"""Measuring what a chain costs on one's own manifests: all of it, and each controller, policy and webhook."""

from __future__ import annotations

import collections
import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from pratique.admission.controllers import BOTH
from pratique.admission.results import OutcomeStatus
from pratique.admission.reviews import Deadline, Review
from pratique.apimachinery.json_values import JSONObject
from pratique_cli.progress import Progress
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.engines.local import LocalEngine

_MAX_SAMPLES = 20_000
"""How many of the last durations are kept of each step: enough for a p99 that 200 samples are beyond."""


class StepKey(NamedTuple):
    """What is measured by itself."""

    controller: str
    phase: str
    name: str
    configuration: str


class StepCost(msgspec.Struct, frozen=True):
    """What one controller, policy or webhook took."""

    key: StepKey
    calls: int
    mean_seconds: float
    p99_seconds: float
    share: float
    """Its part of the time that all decisions took, from 0 to 1. What no step is measured for, as putting it together,
    is the rest; steps that run side by side may add up to more than 1."""


class ChainCost(msgspec.Struct, frozen=True):
    """What a chain took."""

    reviews: int
    wall_seconds: float
    cpu_seconds: float
    median_seconds: float
    p99_seconds: float
    steps: Sequence[StepCost]
    """The most expensive first."""

    @property
    def cpu_of_a_review(self) -> float:
        """CPU seconds of this process for each review."""
        return self.cpu_seconds / self.reviews


class ChainBenchmark:
    """Decides reviews again and again with one chain, and keeps how long that took."""

    def __init__(self, engine: LocalEngine, timeout_seconds: float) -> None:
        """Measure an engine; each review may take ``timeout_seconds``."""
        self._engine = engine
        self._timeout_seconds = timeout_seconds
        self._durations = collections.deque[float](maxlen=_MAX_SAMPLES)
        self._steps: dict[StepKey, collections.deque[float]] = {}
        self._calls = collections.Counter[StepKey]()
        self._totals = collections.Counter[StepKey]()
        self._reviews, self._wall, self._cpu = 0, 0.0, 0.0

    async def warm_up(self, reviews: Sequence[Review]) -> None:
        """Decide every review once without counting it.

        Raises:
            TimeoutError: one is not decided in time.
        """
        for review in reviews:
            await self._decide(review)

    async def measure(self, review: Review) -> None:
        """Decide a review and count it.

        Raises:
            TimeoutError: it is not decided in time.
        """
        cpu, wall = time.process_time(), time.perf_counter()
        decision = await self._decide(review)
        took = time.perf_counter() - wall
        self._cpu += time.process_time() - cpu
        self._wall += took
        self._reviews += 1
        self._durations.append(took)
        for step in decision.steps:
            if step.outcome is not OutcomeStatus.SKIPPED and step.duration_seconds:
                key = StepKey(step.controller, str(step.phase), step.name, step.configuration)
                self._steps.setdefault(key, collections.deque(maxlen=_MAX_SAMPLES)).append(
                    step.duration_seconds
                )
                self._calls[key] += 1
                self._totals[key] += step.duration_seconds  # type: ignore[assignment]  # counts may be floats

    async def _decide(self, review: Review) -> Decision:
        deadline = Deadline.after(self._timeout_seconds)
        return await self._engine.decide(review, BOTH, deadline, explain=True)

    def cost(self) -> ChainCost:
        """Return what was measured so far; at least one review has been."""
        steps = [
            StepCost(
                key,
                self._calls[key],
                self._totals[key] / self._calls[key],
                p99(durations),
                self._totals[key] / self._wall,
            )
            for key, durations in self._steps.items()
        ]
        return ChainCost(
            self._reviews,
            self._wall,
            self._cpu,
            statistics.median(self._durations),
            p99(self._durations),
            sorted(steps, key=lambda step: -step.share),
        )


def p99(durations: Sequence[float]) -> float:
    """Return the duration that one in a hundred exceeds."""
    return sorted(durations)[min(len(durations) - 1, len(durations) * 99 // 100)]


async def run_benchmark(
    benchmarks: Sequence[ChainBenchmark],
    reviews: Sequence[Sequence[Review]],
    seconds: float,
    progress: Progress | None = None,
) -> None:
    """Measure chains for a time: each review is decided by each of them in turn, so that all meet the same machine.

    Args:
        benchmarks: The chains.
        reviews: The reviews of each, as many for each.
        seconds: When to stop, once each review has been measured.
        progress: Shows the time that is over, between the measurements.

    Raises:
        TimeoutError: a review is not decided in time.
    """
    for benchmark, own in zip(benchmarks, reviews, strict=True):
        await benchmark.warm_up(own)
    progress = progress or Progress(None)
    progress.expect(seconds)
    until = latest = time.perf_counter()
    until += seconds
    rounds = 0
    while True:
        for turn in zip(*reviews, strict=True):
            for benchmark, review in zip(benchmarks, turn, strict=True):
                await benchmark.measure(review)
            now = time.perf_counter()
            if now >= until and rounds:
                return
            progress.advance(now - latest)
            progress.update(f"{rounds} rounds")
            latest = now
        rounds += 1


def to_document(cost: ChainCost) -> JSONObject:
    """Return a cost as ``-o json`` shows it."""
    return {
        "reviews": cost.reviews,
        "reviewsPerSecond": round(cost.reviews / cost.wall_seconds, 1),
        "cpuMs": round(cost.cpu_of_a_review * 1000, 4),
        "medianMs": round(cost.median_seconds * 1000, 4),
        "p99Ms": round(cost.p99_seconds * 1000, 4),
        "steps": [
            {
                **step.key._asdict(),
                "calls": step.calls,
                "meanMs": round(step.mean_seconds * 1000, 4),
                "p99Ms": round(step.p99_seconds * 1000, 4),
                "share": round(step.share, 4),
            }
            for step in cost.steps
        ],
    }
