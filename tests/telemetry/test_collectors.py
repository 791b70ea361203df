"""The collectors of metrics, as Prometheus reads them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry

from pratique.telemetry.metrics import (
    CallbackMetric,
    CertificateCollector,
    DurationHistogram,
    LabeledCounter,
    MergedCollectors,
    ReloadCollector,
    ReloadCounts,
)
from pratique.telemetry.policy_metrics import (
    MatchConditionCheck,
    MatchConditionMetrics,
    PolicyCheck,
    mutating_policy_metrics,
    validating_policy_metrics,
)
from pratique.telemetry.registry import create_registry, render_metrics

if TYPE_CHECKING:
    from prometheus_client.registry import Collector


def exported(*collectors: Collector) -> list[str]:
    """The sample lines of collectors in Prometheus' text format."""
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    lines = render_metrics(registry).decode().splitlines()
    return [line for line in lines if not line.startswith("# HELP") and "_created" not in line]


def test_a_counter_without_labels_starts_at_zero() -> None:
    counter = LabeledCounter("reviews_total", "Reviews.", [])
    assert exported(counter) == ["# TYPE reviews_total counter", "reviews_total 0.0"]
    counter.add()
    assert exported(counter)[-1] == "reviews_total 1.0"


def test_label_values_are_exported_from_their_first_event_on() -> None:
    counter = LabeledCounter("reviews_total", "Reviews.", ["phase"])
    assert exported(counter) == ["# TYPE reviews_total counter"]
    counter.add("mutate")
    counter.add("mutate")
    assert exported(counter)[1:] == ['reviews_total{phase="mutate"} 2.0']


def test_a_counter_without_the_suffix_is_exported_without_a_type() -> None:
    counter = LabeledCounter("webhook_rejection_count", "Rejections.", [])
    assert exported(counter) == ["# TYPE webhook_rejection_count untyped", "webhook_rejection_count 0.0"]


def test_buckets_are_cumulative_and_bounds_are_inclusive() -> None:
    histogram = DurationHistogram("seconds", "Durations.", [0.1, 1.0], ["phase"])
    for seconds in (0.05, 0.1, 0.5, 7.0):
        histogram.observe(seconds, "mutate")
    assert exported(histogram)[1:] == [
        'seconds_bucket{le="0.1",phase="mutate"} 2.0',
        'seconds_bucket{le="1.0",phase="mutate"} 3.0',
        'seconds_bucket{le="+Inf",phase="mutate"} 4.0',
        'seconds_count{phase="mutate"} 4.0',
        'seconds_sum{phase="mutate"} 7.65',
    ]


@pytest.mark.parametrize(("name", "kind"), [("restarts_total", "counter"), ("up", "gauge")])
def test_a_callback_is_a_counter_or_a_gauge_by_its_name(name: str, kind: str) -> None:
    assert exported(CallbackMetric(name, "Read.", lambda: 3)) == [f"# TYPE {name} {kind}", f"{name} 3.0"]


def test_a_callback_is_called_on_every_scrape() -> None:
    numbers: dict[tuple[str, ...], float] = {("a",): 1.0}
    metric = CallbackMetric("threads", "Threads.", lambda: numbers, "controller")
    assert exported(metric)[1:] == ['threads{controller="a"} 1.0']
    numbers |= {("a",): 2.0, ("b",): 0.0}
    assert exported(metric)[1:] == ['threads{controller="a"} 2.0', 'threads{controller="b"} 0.0']


def gauge_of(controller: str) -> CallbackMetric:
    return CallbackMetric("up", "Up.", lambda: {(controller,): 1}, "controller")


def test_merged_collectors_export_every_metric_once() -> None:
    merged = MergedCollectors([gauge_of("a"), gauge_of("b")])
    assert exported(merged) == ["# TYPE up gauge", 'up{controller="a"} 1.0', 'up{controller="b"} 1.0']


def test_the_first_load_counts_as_a_success() -> None:
    counts = ReloadCounts("configuration", last_success=5.0)
    counts.fail()
    assert exported(ReloadCollector([counts])) == [
        "# TYPE pratique_reloads_total counter",
        'pratique_reloads_total{result="success",source="configuration"} 1.0',
        'pratique_reloads_total{result="failure",source="configuration"} 1.0',
        "# TYPE pratique_reload_last_success_timestamp_seconds gauge",
        'pratique_reload_last_success_timestamp_seconds{source="configuration"} 5.0',
    ]


def test_a_successful_reload_moves_the_timestamp() -> None:
    counts = ReloadCounts("configuration", last_success=5.0)
    counts.succeed()
    assert counts.successes == 2
    assert counts.last_success > 5.0


def test_certificates_export_their_expiry_and_failures() -> None:
    certificates = [
        SimpleNamespace(name="server certificate", ends_at=7.0, failure=""),
        SimpleNamespace(name="tokens", ends_at=None, failure="unreadable"),
    ]
    assert exported(CertificateCollector(certificates)) == [
        "# TYPE pratique_certificate_expiration_timestamp_seconds gauge",
        'pratique_certificate_expiration_timestamp_seconds{certificate="server-certificate"} 7.0',
        "# TYPE pratique_certificate_reload_failed gauge",
        'pratique_certificate_reload_failed{certificate="server-certificate"} 0.0',
        'pratique_certificate_reload_failed{certificate="tokens"} 1.0',
    ]


def test_a_registry_holds_the_build_and_nothing_of_other_libraries() -> None:
    text = render_metrics(create_registry()).decode()
    assert 'pratique_build_info{python_version="' in text
    assert "python_gc_objects_collected" not in text


PREFIX = "apiserver_admission_match_condition"
LABELS = '{kind="webhook",name="w",operation="CREATE",type="admit"}'


@pytest.mark.parametrize(
    ("check", "samples"),
    [
        (MatchConditionCheck(0.1, held=True, errors=0, excluded=False), []),
        (
            MatchConditionCheck(0.1, held=False, errors=0, excluded=True),
            [f"{PREFIX}_exclusions_total{LABELS} 1.0", f"{PREFIX}_evaluation_seconds_count{LABELS} 1.0"],
        ),
        (
            MatchConditionCheck(0.1, held=False, errors=2, excluded=False),
            [
                f"{PREFIX}_evaluation_errors_total{LABELS} 2.0",
                f"{PREFIX}_evaluation_seconds_count{LABELS} 1.0",
            ],
        ),
    ],
    ids=["all conditions hold", "one is false", "two fail"],
)
def test_match_conditions_are_counted_as_in_the_api_server(
    check: MatchConditionCheck, samples: list[str]
) -> None:
    metrics = MatchConditionMetrics()
    metrics.observe_webhook("w", "admit", "CREATE", check)
    lines = exported(metrics)
    assert [line for line in lines if "_total{" in line or "_count{" in line] == samples


def test_policy_checks_are_counted_by_policy_and_action() -> None:
    metrics = validating_policy_metrics()
    metrics.observe([PolicyCheck("p", "b", "no_error", 0.01, "deny")])
    labels = '{enforcement_action="deny",error_type="no_error",policy="p",policy_binding="b"}'
    lines = exported(metrics)
    assert f"apiserver_validating_admission_policy_check_total{labels} 1.0" in lines
    assert f"apiserver_validating_admission_policy_check_duration_seconds_sum{labels} 0.01" in lines


def test_mutating_policies_have_no_action() -> None:
    metrics = mutating_policy_metrics()
    metrics.observe([PolicyCheck("p", "b", "no_error", 0.01)])
    labels = '{error_type="no_error",policy="p",policy_binding="b"}'
    assert f"apiserver_mutating_admission_policy_check_total{labels} 1.0" in exported(metrics)
