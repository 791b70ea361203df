"""Series: counters and histograms by labels, cheap enough to be kept for every step of every review.

Prometheus' client is imported where somebody asks for the numbers, because most processes of this program are never
asked.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector

V = TypeVar("V")


class LabeledCounter:
    """A counter.

    prometheus_client's own adds ``_total`` to every name, and not all of the API server's end so. Those that
    do not are shown without a type, because the text format allows counters no other name.
    """

    def __init__(self, name: str, documentation: str, labels: Sequence[str]) -> None:
        """Start at zero; a combination of labels is shown from its first event on."""
        self._name, self._documentation, self._labels = name, documentation, labels
        self._counts: dict[tuple[str, ...], int] = {} if labels else {(): 0}

    def add(self, *values: str) -> None:
        """Count one event, with the values of the labels in their order."""
        self._counts[values] = self._counts.get(values, 0) + 1

    def collect(self) -> Iterator[Metric]:
        """Yield the one metric, for a registry."""
        from prometheus_client.metrics_core import CounterMetricFamily, UnknownMetricFamily  # noqa: PLC0415

        family_type = CounterMetricFamily if self._name.endswith("_total") else UnknownMetricFamily
        family = family_type(self._name, self._documentation, labels=self._labels)
        for values, count in _snapshot(self._counts):
            family.add_metric(values, count)
        yield family


class CallbackMetric:
    """A counter, or where it can fall a gauge, that somebody else keeps: asked for whenever metrics are."""

    def __init__(
        self,
        name: str,
        documentation: str,
        read: Callable[[], float | Mapping[tuple[str, ...], float]],
        *labels: str,
    ) -> None:
        """Show what ``read`` gives: a number; or with ``labels`` numbers by their values.

        It is a counter where its name ends in ``_total``.
        """
        self._name, self._documentation, self._read, self._labels = name, documentation, read, labels

    def collect(self) -> Iterator[Metric]:
        """Yield the one metric, for a registry."""
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415

        family_type = CounterMetricFamily if self._name.endswith("_total") else GaugeMetricFamily
        family = family_type(self._name, self._documentation, labels=self._labels)
        found = self._read()
        for values, number in found.items() if isinstance(found, Mapping) else (((), found),):
            family.add_metric(values, number)
        yield family


class DurationHistogram:
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
            self._sums[values] = 0.0
            counts = self._counts[values] = [0] * (len(self._bounds) + 1)
        counts[bisect_left(self._bounds, seconds)] += 1
        self._sums[values] += seconds

    def collect(self) -> Iterator[Metric]:
        """Yield the one metric, for a registry."""
        from prometheus_client.metrics_core import HistogramMetricFamily  # noqa: PLC0415
        from prometheus_client.utils import floatToGoString  # noqa: PLC0415

        family = HistogramMetricFamily(self._name, self._documentation, labels=self._labels)
        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        for values, counts in _snapshot(self._counts):
            # Prometheus' buckets count all that is below their bound.
            buckets = list(zip(bounds, accumulate(counts), strict=True))
            family.add_metric(values, buckets, self._sums[values])
        yield family


def _snapshot(series: Mapping[tuple[str, ...], V]) -> list[tuple[tuple[str, ...], V]]:
    """All of them, as they are now: another thread may be adding one, and a copy is taken in one go."""
    return list(series.items())


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class MergedCollectors:
    """Several collectors that each know of one controller, shown as one: a metric must be there once."""

    collectors: Sequence[Collector]

    def collect(self) -> Iterator[Metric]:
        """Yield each metric once, with what all of them have of it."""
        families: dict[str, Metric] = {}
        for collector in self.collectors:
            for family in collector.collect():
                families.setdefault(family.name, family)
                if families[family.name] is not family:
                    families[family.name].samples.extend(family.samples)
        yield from families.values()
