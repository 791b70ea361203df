"""The API server's metrics of match conditions and admission policies.

Sources: ``k8s.io/apiserver/pkg/admission/metrics/metrics.go`` and ``pkg/admission/plugin/policy/*/metrics/metrics.go``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from pratique.telemetry.metrics import DurationHistogram, LabeledCounter

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_CONDITION_LABELS = ("name", "kind", "type", "operation")
_CONDITION_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25)


class MatchConditionCheck(msgspec.Struct, frozen=True):
    """The evaluation of one webhook's match conditions."""

    seconds: float
    held: bool
    """Whether all conditions are true."""
    errors: int
    """How many conditions failed to evaluate, up to the first that is false."""
    excluded: bool
    """Whether the conditions exclude the webhook from being called."""


class MatchConditionMetrics:
    """The collector of match condition metrics."""

    def __init__(self) -> None:
        """Start at zero."""
        prefix = "apiserver_admission_match_condition_"
        by = "by webhook or policy, operation and type (validate or admit)"
        self._errors = LabeledCounter(
            f"{prefix}evaluation_errors_total",
            f"Match conditions that could not be evaluated, {by}.",
            _CONDITION_LABELS,
        )
        self._exclusions = LabeledCounter(
            f"{prefix}exclusions_total", f"Requests that match conditions excluded, {by}.", _CONDITION_LABELS
        )
        self._seconds = DurationHistogram(
            f"{prefix}evaluation_seconds",
            f"Time to evaluate match conditions, {by}.",
            _CONDITION_BUCKETS,
            _CONDITION_LABELS,
        )
        self._lock = threading.Lock()

    def observe_webhook(self, name: str, kind: str, operation: str, check: MatchConditionCheck) -> None:
        """Count the conditions of a webhook; ``kind`` is its type, ``admit`` or ``validate``.

        As in ``…/webhook/matchconditions/matcher.go``, no time is observed if all conditions hold.
        """
        labels = (name, "webhook", kind, operation)
        with self._lock:
            if not check.held:
                self._seconds.observe(check.seconds, *labels)
            for _ in range(check.errors):
                self._errors.add(*labels)
            if check.excluded:
                self._exclusions.add(*labels)

    def collect(self) -> Iterator[Metric]:
        """Yield all three, for a registry."""
        for collector in (self._errors, self._exclusions, self._seconds):
            yield from collector.collect()


_POLICY_BUCKETS = (0.0000005, 0.001, 0.01, 0.1, 1.0)
_POLICY_LABELS = ("policy", "policy_binding", "error_type")

NO_ERROR = "no_error"
COMPILE_ERROR = "compile_error"
OUT_OF_BUDGET = "out_of_budget"
INVALID_ERROR = "invalid_error"


class PolicyCheck(msgspec.Struct, frozen=True):
    """The evaluation of one expression of a policy."""

    policy: str
    binding: str
    error_type: str
    seconds: float
    enforcement_action: str = ""
    """``allow``, ``deny``, ``warn`` or ``audit`` of a validation; empty of a mutation."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The label values."""
        action = (self.enforcement_action,) if self.enforcement_action else ()
        return (self.policy, self.binding, self.error_type, *action)


class PolicyCheckMetrics:
    """The collector of policy checks, for one kind of policy."""

    def __init__(self, kind: str, *labels: str) -> None:
        """Start at zero; ``kind`` is ``validating`` or ``mutating``, ``labels`` are additional ones of that kind."""
        prefix, words = f"apiserver_{kind}_admission_policy_check", "policy, binding, error and action taken"
        described = words if labels else "policy, binding and error"
        self._counts = LabeledCounter(
            f"{prefix}_total",
            f"Checks of {kind} admission policies, by {described}.",
            (*_POLICY_LABELS, *labels),
        )
        self._durations = DurationHistogram(
            f"{prefix}_duration_seconds",
            f"Latency of single expressions of {kind} admission policies, by {described}.",
            _POLICY_BUCKETS,
            (*_POLICY_LABELS, *labels),
        )
        self._lock = threading.Lock()

    def observe(self, checks: Iterable[PolicyCheck]) -> None:
        """Count checks, possibly from a thread: slow policies are evaluated in one."""
        for check in checks:
            with self._lock:
                self._counts.add(*check.labels)
                self._durations.observe(check.seconds, *check.labels)

    def collect(self) -> Iterator[Metric]:
        """Yield both metrics, for a registry."""
        yield from self._counts.collect()
        yield from self._durations.collect()


def validating_policy_metrics() -> PolicyCheckMetrics:
    """Metrics of ValidatingAdmissionPolicies."""
    return PolicyCheckMetrics("validating", "enforcement_action")


def mutating_policy_metrics() -> PolicyCheckMetrics:
    """Metrics of MutatingAdmissionPolicies."""
    return PolicyCheckMetrics("mutating")
