"""Series: counters and histograms by labels, cheap enough to be kept for every step of every review."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, UnknownMetricFamily
from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prometheus_client.metrics_core import Metric


class Counts:
    """A counter.

    prometheus_client's own adds ``_total`` to every name, and not all of the API server's end so. Those that
    do not are shown without a type, because the text format allows counters no other name.
    """

    def __init__(self, name: str, documentation: str, labels: Sequence[str]) -> None:
        """Start at zero; a combination of labels is shown from its first event on."""
        self._name, self._documentation, self._labels = name, documentation, labels
        self._counts: dict[tuple[str, ...], int] = {}

    def add(self, *values: str) -> None:
        """Count one event, with the values of the labels in their order."""
        self._counts[values] = self._counts.get(values, 0) + 1

    def collect(self) -> Iterator[Metric]:
        """Yield the one metric, for a registry."""
        family_type = CounterMetricFamily if self._name.endswith("_total") else UnknownMetricFamily
        family = family_type(self._name, self._documentation, labels=self._labels)
        for values, count in self._counts.items():
            family.add_metric(values, count)
        yield family


class Durations:
    """A histogram of seconds. prometheus_client's own takes locks for threads that are not there."""

    def __init__(
        self, name: str, documentation: str, buckets: Sequence[float], labels: Sequence[str]
    ) -> None:
        """Start with no observations; ``buckets`` are their upper bounds, in seconds, ascending."""
        self._name, self._documentation, self._labels = name, documentation, labels
        self._bounds = tuple(buckets)
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def observe(self, seconds: float, *values: str) -> None:
        """Add one duration, with the values of the labels in their order."""
        counts = self._counts.get(values)
        if counts is None:
            counts = self._counts[values] = [0] * (len(self._bounds) + 1)
            self._sums[values] = 0.0
        counts[bisect_left(self._bounds, seconds)] += 1
        self._sums[values] += seconds

    def collect(self) -> Iterator[Metric]:
        """Yield the one metric, for a registry."""
        family = HistogramMetricFamily(self._name, self._documentation, labels=self._labels)
        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        for values, counts in self._counts.items():
            # Prometheus' buckets count all that is below their bound.
            buckets = list(zip(bounds, accumulate(counts), strict=True))
            family.add_metric(values, buckets, self._sums[values])
        yield family
