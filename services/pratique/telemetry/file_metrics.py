"""The metrics of files: how often one could be read again, and when certificates end."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prometheus_client.metrics_core import Metric

    from pratique.https.tls import ReloadedCertificate


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
