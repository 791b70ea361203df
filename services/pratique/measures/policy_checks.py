"""Policy checks: what policies in CEL came to, as the API server counts it.

Names, labels and buckets are those of ``k8s.io/apiserver/pkg/admission/plugin/policy/{validating,mutating}/metrics``.
As there, validations that hold are not counted: what is counted is what a binding makes of those that do not, and what
could not be evaluated. Of mutations all are.
"""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING

from pratique.measures.series import Counts, Durations

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client.metrics_core import Metric

_BUCKETS = (0.0000005, 0.001, 0.01, 0.1, 1.0)
_LABELS = ("policy", "policy_binding", "error_type")

NO_ERROR = "no_error"
COMPILE_ERROR = "compile_error"
OUT_OF_BUDGET = "out_of_budget"
INVALID_ERROR = "invalid_error"


@dataclasses.dataclass(frozen=True, slots=True)
class PolicyCheck:
    """One expression of a policy, and what came of it."""

    policy: str
    binding: str
    error_type: str
    seconds: float
    enforcement_action: str = ""
    """``allow``, ``deny``, ``warn`` or ``audit`` of a validation; empty of a mutation."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Its labels' values."""
        action = (self.enforcement_action,) if self.enforcement_action else ()
        return (self.policy, self.binding, self.error_type, *action)


class PolicyChecks:
    """All checks of one kind of policies."""

    def __init__(self, kind: str, *labels: str) -> None:
        """Start at zero; ``kind`` is ``validating`` or ``mutating``, ``labels`` are those of that kind alone."""
        prefix, words = f"apiserver_{kind}_admission_policy_check", "policy, binding, error and action taken"
        described = words if labels else "policy, binding and error"
        self._counts = Counts(
            f"{prefix}_total", f"Checks of {kind} admission policies, by {described}.", (*_LABELS, *labels)
        )
        self._durations = Durations(
            f"{prefix}_duration_seconds",
            f"Latency of single expressions of {kind} admission policies, by {described}.",
            _BUCKETS,
            (*_LABELS, *labels),
        )
        self._lock = threading.Lock()

    def observe(self, checks: Iterable[PolicyCheck]) -> None:
        """Count checks. What takes long is decided in a thread, and counted there."""
        for one in checks:
            with self._lock:
                self._counts.add(*one.labels)
                self._durations.observe(one.seconds, *one.labels)

    def collect(self) -> Iterator[Metric]:
        """Yield both metrics, for a registry."""
        yield from self._counts.collect()
        yield from self._durations.collect()


def validating_checks() -> PolicyChecks:
    """Those of ValidatingAdmissionPolicies."""
    return PolicyChecks("validating", "enforcement_action")


def mutating_checks() -> PolicyChecks:
    """Those of MutatingAdmissionPolicies."""
    return PolicyChecks("mutating")
