"""Metrics: counters and histograms by label, and the collectors of reloads and certificates.

They are cheap enough to keep for every step of every review. Prometheus' client is imported only when somebody asks for
the numbers, because most processes of this program are never asked.
"""

from __future__ import annotations

import dataclasses
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector

    from pratique.https.tls import ReloadedCertificate


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


@dataclasses.dataclass(slots=True)
class ReloadCounts:
    """Of one source, such as ``configuration``. The first reading counts as a success: without it nothing runs."""

    source: str
    successes: int = 1
    failures: int = 0
    last_success: float = dataclasses.field(default_factory=time.time)
    """In seconds since 1970."""

    def succeed(self) -> None:
        """Count one that was taken up."""
        self.successes += 1
        self.last_success = time.time()

    def fail(self) -> None:
        """Count one that could not be used."""
        self.failures += 1


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class ReloadCollector:
    """A collector of all that a process reads again."""

    sources: Sequence[ReloadCounts]

    def collect(self) -> Iterator[Metric]:
        """Yield both, for a registry."""
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 - as asked

        counts = CounterMetricFamily(
            "pratique_reloads_total",
            "Readings of files, the first one included, by what they hold and whether it could be used.",
            labels=["source", "result"],
        )
        last = GaugeMetricFamily(
            "pratique_reload_last_success_timestamp_seconds",
            "When what is used now was read, in seconds since 1970.",
            labels=["source"],
        )
        for one in self.sources:
            counts.add_metric([one.source, "success"], one.successes)
            counts.add_metric([one.source, "failure"], one.failures)
            last.add_metric([one.source], one.last_success)
        yield from (counts, last)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class CertificateCollector:
    """A collector, which looks at what it shows when it is asked."""

    kept: Sequence[ReloadedCertificate[Any]]

    def collect(self) -> Iterator[Metric]:
        """Yield both, for a registry."""
        from prometheus_client.metrics_core import GaugeMetricFamily  # noqa: PLC0415 - where somebody asks

        ends = GaugeMetricFamily(
            "pratique_certificate_expiration_timestamp_seconds",
            "When a certificate ends, in seconds since 1970; of authorities, when the last one does.",
            labels=["certificate"],
        )
        failed = GaugeMetricFamily(
            "pratique_certificate_reload_failed",
            "1 where what is in the files now cannot be used, and what was there before still is.",
            labels=["certificate"],
        )
        for one in self.kept:
            label = [one.name.replace(" ", "-")]
            if one.ends_at is not None:
                ends.add_metric(label, one.ends_at)
            failed.add_metric(label, int(bool(one.failure)))
        yield from (ends, failed)
