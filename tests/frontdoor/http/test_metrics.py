from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pratique.admission.controllers import Phase
from pratique.admission.results import OutcomeStatus
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.http.metrics import Metrics
from support.front_doors.engines import step

PREFIX = "apiserver_admission_"
MUTATE, VALIDATE = Phase.MUTATE, Phase.VALIDATE


def observed(decision: Decision, operation: str = "CREATE") -> dict[str, dict[tuple[str, ...], float]]:
    """Values by the metric's name, without its prefix, and the values of its labels in their names' order."""
    metrics = Metrics()
    metrics.observe_decision(operation, decision)
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(metrics.text().decode()):
        for sample in family.samples:
            labels = tuple(sample.labels[name] for name in sorted(sample.labels))
            found.setdefault(sample.name.removeprefix(PREFIX), {})[labels] = sample.value
    return found


def decision_of(*steps: object, allowed: bool = True) -> Decision:
    return Decision(uid="u", allowed=allowed, steps=steps)  # type: ignore[arg-type] # they are steps


def webhook(outcome: OutcomeStatus, phase: Phase = VALIDATE, **fields: object) -> object:
    controller = "MutatingAdmissionWebhook" if phase is MUTATE else "ValidatingAdmissionWebhook"
    return step(outcome, controller=controller, name="a.example.com", phase=phase, **fields)


def test_phases_are_observed_as_admission_steps() -> None:
    decision = Decision(
        uid="u",
        allowed=False,
        steps=(step(OutcomeStatus.MUTATED, phase=MUTATE), step(OutcomeStatus.DENIED)),
        phase_seconds={MUTATE: 0.03, VALIDATE: 3.0},
    )
    found = observed(decision, "UPDATE")
    assert found["step_admission_duration_seconds_sum"] == {
        ("UPDATE", "false", "admit"): 0.03,
        ("UPDATE", "true", "validate"): 3.0,
    }
    buckets = found["step_admission_duration_seconds_bucket"]
    mutating = {labels[0]: value for labels, value in buckets.items() if "admit" in labels}
    below = dict.fromkeys(["0.005", "0.025"], 0.0)
    assert mutating == below | dict.fromkeys(["0.1", "0.5", "1.0", "2.5", "+Inf"], 1.0)


def test_controllers_are_observed_by_name_and_type() -> None:
    lifecycle = step(OutcomeStatus.ALLOWED, duration_seconds=0.25)
    limits = step(OutcomeStatus.FAILED, controller="LimitRanger", name="LimitRanger", phase=MUTATE)
    found = observed(decision_of(limits, lifecycle, allowed=False))
    assert found["controller_admission_duration_seconds_sum"] == {
        ("LimitRanger", "CREATE", "true", "admit"): 0.001,
        ("NamespaceLifecycle", "CREATE", "false", "validate"): 0.25,
    }


@pytest.mark.parametrize(("phase", "kind", "seconds"), [(MUTATE, "admit", 0.75), (VALIDATE, "validate", 0.5)])
def test_all_webhooks_of_a_phase_are_observed_as_one_controller(
    phase: Phase, kind: str, seconds: float
) -> None:
    steps = [webhook(OutcomeStatus.ALLOWED, phase, duration_seconds=took) for took in (0.25, 0.5)]
    sums = observed(decision_of(*steps))["controller_admission_duration_seconds_sum"]
    assert [(labels[1:], value) for labels, value in sums.items()] == [(("CREATE", "false", kind), seconds)]


def test_the_second_round_is_observed_separately() -> None:
    rounds = [webhook(OutcomeStatus.MUTATED, MUTATE, round=number) for number in (0, 1)]
    counts = observed(decision_of(*rounds))["controller_admission_duration_seconds_count"]
    assert list(counts.values()) == [2]


@pytest.mark.parametrize(
    ("outcome", "code", "counted", "rejection"),
    [
        (OutcomeStatus.ALLOWED, 0, ("200", "false"), None),
        (OutcomeStatus.WARNED, 0, ("200", "false"), None),
        (OutcomeStatus.DENIED, 403, ("403", "true"), ("no_error", "403")),
        (OutcomeStatus.DENIED, 4711, ("600", "true"), ("no_error", "600")),
        (OutcomeStatus.FAILED, 500, ("500", "true"), ("calling_webhook_error", "500")),
        (OutcomeStatus.DENIED, 0, ("0", "true"), ("apiserver_internal_error", "0")),
        (OutcomeStatus.FAILED, 0, ("0", "true"), ("apiserver_internal_error", "0")),
        (OutcomeStatus.FAILED_OPEN, 503, ("503", "false"), None),
    ],
)
def test_webhook_requests_are_counted_as_the_api_server_counts_them(
    outcome: OutcomeStatus, code: int, counted: tuple[str, str], rejection: tuple[str, str] | None
) -> None:
    found = observed(decision_of(webhook(outcome, code=code, endpoint="https://a")))
    code_label, rejected = counted
    assert found["webhook_request_total"] == {
        (code_label, "a.example.com", "CREATE", rejected, "validating"): 1
    }
    assert list(found["webhook_admission_duration_seconds_count"]) == [
        ("a.example.com", "CREATE", rejected, "validating")
    ]
    expected = (
        {}
        if rejection is None
        else {(rejection[0], "a.example.com", "CREATE", rejection[1], "validating"): 1}
    )
    assert found.get("webhook_rejection_count", {}) == expected


def test_a_webhook_that_cannot_be_matched_is_not_counted() -> None:
    found = observed(decision_of(webhook(OutcomeStatus.FAILED), allowed=False))
    assert not [name for name in found if name.startswith("webhook")]


def test_failing_open_is_counted() -> None:
    found = observed(decision_of(webhook(OutcomeStatus.FAILED_OPEN, MUTATE, code=503)))
    assert found["webhook_fail_open_count"] == {("a.example.com", "admit"): 1}


def test_skipped_steps_are_not_observed() -> None:
    found = observed(decision_of(step(OutcomeStatus.SKIPPED), webhook(OutcomeStatus.SKIPPED)))
    assert not [name for name in found if name.startswith(("controller", "webhook"))]


def test_controller_names_are_escaped_in_labels() -> None:
    found = observed(decision_of(step(OutcomeStatus.ALLOWED, controller='a"b\nc')))
    assert list(found["controller_admission_duration_seconds_count"]) == [
        ('a"b\nc', "CREATE", "false", "validate")
    ]
