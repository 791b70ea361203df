"""Metrics that a worker process sends to its service."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest
from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.metrics_core import Metric

from pratique.telemetry.worker_metrics import MAX_BYTES, WorkerMetrics, send_metrics


def sent_by(*collectors: Counter | Gauge | Histogram | Broken) -> list[bytes]:
    """What a worker sends at first."""
    sent: list[bytes] = []

    async def run() -> None:
        sending = asyncio.ensure_future(send_metrics(collectors, sent.append, seconds=3600))
        await asyncio.sleep(0)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

    asyncio.run(run())
    return sent


class Broken:
    def collect(self) -> Iterator[Metric]:
        raise RuntimeError("secret")


def counter(name: str = "acme_denials") -> Counter:
    return Counter(name, "Denials.", ["team"], registry=None)


def samples(metrics: WorkerMetrics) -> dict[tuple[str, str], float]:
    return {
        (sample.name, ",".join(sample.labels.values())): sample.value
        for family in metrics.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_counters_gauges_and_histograms_arrive_as_they_are() -> None:
    denials, ready = counter(), Gauge("acme_ready", "Whether it is.", registry=None)
    seconds = Histogram("acme_seconds", "Time.", buckets=(1.0,), registry=None)
    denials.labels('pay\n"ments').inc(3)
    ready.set(1)
    seconds.observe(0.5)
    metrics = WorkerMetrics("c")
    [text] = sent_by(denials, ready, seconds)
    metrics.receive(text)
    assert samples(metrics) == {
        ("acme_denials_total", 'pay\n"ments'): 3,
        ("acme_ready", ""): 1,
        ("acme_seconds_bucket", "1.0"): 1,
        ("acme_seconds_bucket", "+Inf"): 1,
        ("acme_seconds_count", ""): 1,
        ("acme_seconds_sum", ""): 0.5,
    }


def test_metrics_are_sent_again_only_when_they_have_changed() -> None:
    async def run() -> list[bytes]:
        denials, sent = counter(), list[bytes]()
        sending = asyncio.ensure_future(send_metrics([denials], sent.append, seconds=0))
        for _ in range(20):
            await asyncio.sleep(0)
        denials.labels("a").inc()
        while len(sent) < 2:  # noqa: ASYNC110 - nothing tells when it has been sent
            await asyncio.sleep(0)
        sending.cancel()
        return sent

    assert len(asyncio.run(run())) == 2


def test_names_of_the_services_own_metrics_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    metrics = WorkerMetrics("c")
    [text] = sent_by(counter("pratique_build_info"), counter("apiserver_x"), counter())
    metrics.receive(text)
    with caplog.at_level(logging.WARNING):
        assert {family.name for family in metrics.collect()} == {"acme_denials"}
        list(metrics.collect())
    assert len(caplog.records) == 2


@pytest.mark.parametrize("text", [b"no metrics {", b"\xff\xfe", b"a" * (MAX_BYTES + 1)])
def test_what_is_no_metrics_is_not_shown(text: bytes) -> None:
    metrics = WorkerMetrics("c")
    metrics.receive(text)
    assert not list(metrics.collect())


def test_too_many_series_are_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    many = counter()
    for number in range(5000):
        many.labels(f"{number:050}").inc()
    assert sent_by(many) == []
    assert "too many label values" in caplog.records[0].reason  # type: ignore[attr-defined]  # a field of the log


def test_metrics_that_raise_are_not_sent_and_their_error_is_not_quoted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert sent_by(Broken()) == []
    assert "secret" not in str(vars(caplog.records[0]))
