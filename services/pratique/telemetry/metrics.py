"""Metrics: counters and histograms by label, and the collectors of reloads and certificates.

They are cheap enough to keep for every step of every review. Prometheus' client is imported only when somebody asks for
the numbers, because most processes of this program are never asked.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector


V = TypeVar("V")


class LabeledCounter:
    """A counter with labels.

    prometheus_client's own counter appends ``_total`` to every name, which not all of the API server's counters have.
    Those are exported without a type, because the text format requires the suffix of counters.
    """

    def __init__(self, name: str, documentation: str, labels: Sequence[str]) -> None:
        """Start at zero; a combination of label values is exported from its first event on."""
        self._name, self._documentation, self._labels = name, documentation, labels
        self._counts: dict[tuple[str, ...], int] = {} if labels else {(): 0}

    def add(self, *values: str) -> None:
        """Count one event, with the label values in order."""
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
    """A counter or gauge whose value a callback returns whenever metrics are collected."""

    def __init__(
        self,
        name: str,
        documentation: str,
        read: Callable[[], float | Mapping[tuple[str, ...], float]],
        *labels: str,
    ) -> None:
        """Export what ``read`` returns: a number, or with ``labels`` a mapping from label values to numbers.

        It is a counter if its name ends in ``_total``, else a gauge.
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
    """A histogram of seconds with labels. prometheus_client's own takes locks that a single thread does not need."""

    def __init__(
        self, name: str, documentation: str, buckets: Sequence[float], labels: Sequence[str]
    ) -> None:
        """Start without observations; ``buckets`` are the upper bounds in seconds, ascending."""
        self._name, self._documentation, self._labels = name, documentation, labels
        self._bounds = tuple(buckets)
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def observe(self, seconds: float, *values: str) -> None:
        """Add one observation in seconds, with the label values in order."""
        # Not setdefault, which would build a list for every observation.
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
            # Prometheus' buckets are cumulative.
            buckets = list(zip(bounds, accumulate(counts), strict=True))
            family.add_metric(values, buckets, self._sums[values])
        yield family


def _snapshot(series: Mapping[tuple[str, ...], V]) -> list[tuple[tuple[str, ...], V]]:
    """A copy of all series, taken atomically because another thread may add one."""
    return list(series.items())


class MergedCollectors(msgspec.Struct, frozen=True, eq=False):
    """Several collectors, one per controller, merged into one because a registry wants each metric once."""

    collectors: Sequence[Collector]

    def collect(self) -> Iterator[Metric]:
        """Yield every metric once, with the samples of all collectors."""
        families: dict[str, Metric] = {}
        for collector in self.collectors:
            for family in collector.collect():
                families.setdefault(family.name, family)
                if families[family.name] is not family:
                    families[family.name].samples.extend(family.samples)
        yield from families.values()


class ReloadCounts(msgspec.Struct):
    """How often one source, such as ``configuration``, was reloaded. The first load counts as a success."""

    source: str
    successes: int = 1
    failures: int = 0
    last_success: float = msgspec.field(default_factory=time.time)
    """The time of the last success, in seconds since 1970."""

    def succeed(self) -> None:
        """Count a load whose value is in use."""
        self.successes += 1
        self.last_success = time.time()

    def fail(self) -> None:
        """Count a load whose value was unusable."""
        self.failures += 1


class ReloadCollector(msgspec.Struct, frozen=True, eq=False):
    """The collector of a process's reload counts."""

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
        for reloads in self.sources:
            counts.add_metric([reloads.source, "success"], reloads.successes)
            counts.add_metric([reloads.source, "failure"], reloads.failures)
            last.add_metric([reloads.source], reloads.last_success)
        yield from (counts, last)


class WatchedCertificate(Protocol):
    """A certificate that is loaded from files, as far as its metrics need it."""

    @property
    def name(self) -> str:
        """Its name, such as ``server certificate``."""

    @property
    def ends_at(self) -> float | None:
        """When it expires, in seconds since 1970; None if it does not."""

    @property
    def failure(self) -> str:
        """Why its current files are unusable; empty if they are in use."""


class CertificateCollector(msgspec.Struct, frozen=True, eq=False):
    """The collector of certificate expiry, which inspects the certificates on every scrape."""

    certificates: Sequence[WatchedCertificate]

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
            "1 if the current files cannot be used, so that the previous content is still in use.",
            labels=["certificate"],
        )
        for certificate in self.certificates:
            label = [certificate.name.replace(" ", "-")]
            if certificate.ends_at is not None:
                ends.add_metric(label, certificate.ends_at)
            failed.add_metric(label, int(bool(certificate.failure)))
        yield from (ends, failed)
