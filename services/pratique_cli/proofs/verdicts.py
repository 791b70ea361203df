"""Verdicts: what a report says of each mutator, question by question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique_cli.proofs.violations import Defect

if TYPE_CHECKING:
    from frontdoor.mutator_sets import Mutator
    from pratique_cli.proofs.findings import Report

QUESTIONS: dict[str, frozenset[Defect]] = {
    "decides": frozenset({Defect.FAILS}),
    "deterministic": frozenset({Defect.NOT_DETERMINISTIC}),
    "idempotent": frozenset({Defect.NOT_IDEMPOTENT, Defect.REFUSES_OWN, Defect.NOT_SETTLED}),
    "inAnyOrder": frozenset({Defect.ORDER, Defect.CONFLICT, Defect.UNDONE}),
    "withoutConflict": frozenset({Defect.CONFLICT, Defect.UNDONE}),
    "validated": frozenset({Defect.REFUSED}),
}
"""What is asked, and which defects answer no."""

TITLES = {
    Defect.FAILS: "fails",
    Defect.NOT_DETERMINISTIC: "not deterministic",
    Defect.NOT_IDEMPOTENT: "not idempotent",
    Defect.REFUSES_OWN: "refuses its own output",
    Defect.NOT_SETTLED: "not settled",
    Defect.UNDONE: "loop",
    Defect.CONFLICT: "conflict",
    Defect.ORDER: "order matters",
    Defect.REFUSED: "refused by validators",
}
"""What defects are called for people."""


def verdict(report: Report, mutator: Mutator | None, question: str) -> bool | None:
    """Whether the answer is yes for a mutator, or for all together; None where it did nothing, or nobody knows."""
    against = any(
        finding.violation.defect in QUESTIONS[question]
        and (mutator is None or mutator in finding.violation.mutators)
        for finding in report.findings
    )
    if against:
        return False
    if mutator is not None and mutator.placed and question in {"deterministic", "inAnyOrder"}:
        return None  # theirs to decide by chance, and theirs to be where they are
    acted = any(report.acted.values()) if mutator is None else report.acted.get(mutator, 0) > 0
    return True if acted and not report.trouble else None
