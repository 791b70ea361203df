"""Certificates among the metrics: when they end, and whether what is in their files now can be used."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prometheus_client.metrics_core import Metric

    from pratique.tls.kept import Kept


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class CertificateMetrics:
    """A collector, which looks at what it shows when it is asked."""

    kept: Sequence[Kept[Any]]

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
