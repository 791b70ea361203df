from __future__ import annotations

import msgspec
import pytest

from pratique.admission.controllers import Phase
from pratique.admission.results import OutcomeStatus as StepOutcome
from pratique.apimachinery.statuses import Status, StatusCause, StatusDetails, failure
from pratique_cli.outputs.findings import findings
from pratique_frontdoor.chain.decisions import Decision, Step
from support.hostile_reviews import denied_hostilely


def step(controller: str, outcome: StepOutcome, reason: str = "", name: str = "") -> Step:
    return Step(
        controller=controller, phase=Phase.VALIDATE, name=name or controller, outcome=outcome, reason=reason
    )


def findings_in(
    *steps: Step, status: Status | None = None, warnings: tuple[str, ...] = ()
) -> list[tuple[str, str, str]]:
    """Level, origin and text of the findings in a decision on a ConfigMap."""
    decision = Decision(uid="1", allowed=status is None, status=status, warnings=warnings, steps=steps)
    reviewed = msgspec.structs.replace(denied_hostilely(text="conf"), decision=decision)
    return [(finding.level.value, str(finding.origin), finding.text) for finding in findings(reviewed)]


def refusal(message: str, *causes: StatusCause) -> Status:
    return failure(403, "Forbidden", message, StatusDetails(causes=causes))


def test_each_cause_is_attributed_to_its_step() -> None:
    status = refusal("one", StatusCause(message="one"), StatusCause(message="and two"))
    steps = (step("A", StepOutcome.DENIED, "one"), step("B", StepOutcome.FAILED, "two"))
    assert findings_in(*steps, status=status) == [("error", "A", "one"), ("error", "B", "and two")]


def test_all_causes_of_a_single_denial_belong_to_its_step() -> None:
    causes = (
        StatusCause(message="Required value", field="data"),
        StatusCause(message="kind: no", field="kind"),
    )
    assert findings_in(step("A", StepOutcome.DENIED, "both"), status=refusal("both", *causes)) == [
        ("error", "A", "data: Required value"),
        ("error", "A", "kind: no"),
    ]


def test_a_denying_step_without_a_cause_is_a_finding() -> None:
    steps = (step("A", StepOutcome.DENIED, "one"), step("B", StepOutcome.DENIED, "two"))
    assert findings_in(*steps, status=failure(403, "Forbidden", "one")) == [
        ("error", "A", "one"),
        ("error", "B", "two"),
    ]


def test_a_denial_without_a_step_is_a_finding() -> None:
    assert findings_in(status=failure(500, "", "broken")) == [("error", "Admission", "broken")]


@pytest.mark.parametrize(
    ("steps", "rule"),
    [
        ([step("A", StepOutcome.WARNED), step("B", StepOutcome.ALLOWED)], "A"),
        ([step("A", StepOutcome.WARNED, name="p1"), step("A", StepOutcome.WARNED, name="p2")], "A/p2"),
        ([step("A", StepOutcome.WARNED), step("B", StepOutcome.WARNED)], "Admission"),
        ([step("A", StepOutcome.MUTATED, name="p2"), step("B", StepOutcome.SKIPPED, name="p2")], "A/p2"),
        ([], "Admission"),
    ],
)
def test_a_warning_is_attributed_to_its_step(steps: list[Step], rule: str) -> None:
    assert findings_in(*steps, warnings=("policy 'p2' warns",)) == [("warning", rule, "policy 'p2' warns")]


def test_a_step_that_failed_open_is_a_warning() -> None:
    found = findings_in(step("A", StepOutcome.FAILED_OPEN, "no connection", name="hook"))
    assert found == [("warning", "A/hook", "no connection")]


def test_a_cause_is_placed_at_its_field() -> None:
    reviewed = denied_hostilely(text="conf")
    status = refusal("no", StatusCause(message="Invalid value", field="metadata.name"))
    decision = msgspec.structs.replace(reviewed.decision, status=status, warnings=())
    (found,) = findings(msgspec.structs.replace(reviewed, decision=decision))
    raw = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}}'
    assert (found.field, found.place.line) == ("metadata.name", 1)
    assert found.place.column == raw.index('"name"') + 1
