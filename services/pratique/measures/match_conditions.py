"""Match conditions among the metrics, as the API server counts them.

Names, labels and buckets: ``k8s.io/apiserver/pkg/admission/metrics/metrics.go``.
"""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING

from pratique.measures.series import Counts, Durations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

_LABELS = ("name", "kind", "type", "operation")
_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25)


@dataclasses.dataclass(frozen=True, slots=True)
class ConditionCheck:
    """What the conditions of one webhook came to."""

    seconds: float
    held: bool
    """Whether all of them are true."""
    errors: int
    """How many of them have no value, up to the first that is false."""
    excluded: bool
    """Whether the webhook is not called because of them."""


class ConditionMetrics:
    """What became of all match conditions."""

    def __init__(self) -> None:
        """Start at zero."""
        prefix = "apiserver_admission_match_condition_"
        by = "by webhook or policy, operation and type (validate or admit)"
        self._errors = Counts(
            f"{prefix}evaluation_errors_total",
            f"Match conditions that could not be evaluated, {by}.",
            _LABELS,
        )
        self._exclusions = Counts(
            f"{prefix}exclusions_total", f"Requests that match conditions excluded, {by}.", _LABELS
        )
        self._seconds = Durations(
            f"{prefix}evaluation_seconds", f"Time to evaluate match conditions, {by}.", _BUCKETS, _LABELS
        )
        self._lock = threading.Lock()

    def observe_webhook(self, name: str, kind: str, operation: str, check: ConditionCheck) -> None:
        """Count the conditions of a webhook, ``kind`` being its type: ``admit`` or ``validate``.

        As in ``…/webhook/matchconditions/matcher.go``, no time is observed where all of them hold.
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
        for one in (self._errors, self._exclusions, self._seconds):
            yield from one.collect()
