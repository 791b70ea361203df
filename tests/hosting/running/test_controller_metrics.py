"""What a service counts of the controllers that it hosts."""

from __future__ import annotations

import pytest

from pratique.admission.controllers import Phase
from pratique.admission.results import (
    ALLOWED,
    Denied,
    Failed,
    FailureKind,
    Outcome,
    OutcomeDecision,
    OutcomeStatus,
    PolicyOutcome,
)
from pratique.apimachinery import statuses
from pratique.hosting.running import ControllerMetrics


def part(status: OutcomeStatus, name: str = "RequireTeam") -> tuple[PolicyOutcome, ...]:
    return (PolicyOutcome(name=name, status=status),)


@pytest.mark.parametrize(
    ("decision", "parts", "label"),
    [
        (ALLOWED, (), "allowed"),
        (Denied(statuses.internal_error("no")), (), "denied"),
        (Failed(FailureKind.ERROR, "raised KeyError"), (), "failed"),
        (Failed(FailureKind.TIMEOUT, "late"), (), "timeout"),
        (ALLOWED, part(OutcomeStatus.FAILED_OPEN), "failedOpen"),
        (ALLOWED, part(OutcomeStatus.SKIPPED), "skipped"),
        (ALLOWED, part(OutcomeStatus.DENIED, name="a policy in CEL"), "allowed"),
    ],
)
def test_outcomes_are_counted_by_what_came_of_them(
    decision: OutcomeDecision, parts: tuple[PolicyOutcome, ...], label: str
) -> None:
    metrics = ControllerMetrics(Phase.VALIDATE, {"RequireTeam": object()})  # type: ignore[dict-item]  # only names are read
    metrics.observe([Outcome(controller="RequireTeam", decision=decision, policy_outcomes=parts)])
    durations = next(iter(metrics.collect()))
    assert {sample.labels["outcome"] for sample in durations.samples} == {label}
