"""Comparing the steps of a decision with expected steps, in order."""

from __future__ import annotations

from collections.abc import Sequence

from pratique.apimachinery.field_errors import Step as PathStep
from pratique_cli.suites.cases import ExpectationMismatch, ExpectedStep
from pratique_frontdoor.chain.decisions import Step


def missing_step(
    expected: Sequence[ExpectedStep], steps: Sequence[Step], path: tuple[PathStep, ...]
) -> ExpectationMismatch | None:
    """Find the first expected step that does not occur after those before it; None if all occur in order."""
    begun = 0
    for index, expected_step in enumerate(expected):
        found = next((at for at in range(begun, len(steps)) if _matches(expected_step, steps[at])), None)
        if found is None:
            return ExpectationMismatch(
                (*path, index),
                f"a step {_expected_step_text(expected_step)}",
                _nearest_steps(expected_step, steps, begun),
            )
        begun = found + 1
    return None


def _matches(expected: ExpectedStep, step: Step) -> bool:
    if any(getattr(step, name) != value for name, value in expected.members.items()):
        return False
    return expected.reason is None or expected.reason.found_in(step.reason)


def _expected_step_text(expected: ExpectedStep) -> str:
    parts = [f"{name} {value}" for name, value in expected.members.items()]
    if expected.reason is not None:
        parts.append(f"reason that matches {expected.reason.text}")
    return f"({', '.join(parts)})"


def _nearest_steps(expected: ExpectedStep, steps: Sequence[Step], begun: int) -> str:
    """Describe the most similar steps: those that agree in most members."""
    if any(_matches(expected, step) for step in steps[:begun]):
        return f"it only before the step that was found for the one before: {_step_text(steps[begun - 1])}"
    agreeing = [(_agreement(expected, step), step) for step in steps]
    best = max((count for count, _ in agreeing), default=0)
    nearest = [_step_text(step) for count, step in agreeing if count == best and best > 0]
    return "; ".join(nearest[:_MAX_NEAREST]) or "none that is like it"


_MAX_NEAREST = 3
"""The most similar steps to print."""


def _agreement(expected: ExpectedStep, step: Step) -> int:
    return sum(getattr(step, name) == value for name, value in expected.members.items() if name != "phase")


def _step_text(step: Step) -> str:
    name = step.controller if step.name == step.controller else f"{step.controller} {step.name}"
    origin = f" ({step.configuration})" if step.configuration else ""
    reason = f": {step.reason}" if step.reason else ""
    return f"{name}{origin} {step.phase.value} {step.outcome.value}{reason}"
