"""Conditions: the CEL expressions that must all be true for a webhook or policy to be asked.

Source: ``k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions/matcher.go`` and
``k8s.io/apiserver/pkg/admission/plugin/cel/condition.go``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeAlias

from pratique.cel import costs
from pratique.cel.budgets import Budget, Patience
from pratique.cel.errors import EvaluationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pratique.cel.expressions import Expression
    from pratique.cel.values import Value

ConditionFinding: TypeAlias = "tuple[str, bool | EvaluationError]"
"""A condition's name, and what it came to: true, false, or why it is neither."""


@dataclasses.dataclass(frozen=True, slots=True)
class Condition:
    """One condition, compiled."""

    name: str
    expression: Expression


def evaluate_conditions(
    conditions: Sequence[Condition],
    variables: Mapping[str, Value],
    until: float | None = None,
    patience: Patience | None = None,
) -> list[ConditionFinding]:
    """Evaluate all conditions, those after a false one too: the API server does, and it tells in the cost.

    Args:
        conditions: The conditions.
        variables: What they see.
        until: When they are cut off, by ``time.monotonic``.
        patience: What may be spent where they run; None means all that they may cost.

    Raises:
        OutOfBudgetError: together they cost more than they may.
        SlowEvaluationError: they take more than ``patience``.
    """
    budget = Budget(costs.PER_MATCH_CONDITIONS)
    findings: list[ConditionFinding] = []
    for condition in conditions:
        try:
            value = condition.expression.evaluate(variables, budget, until=until, patience=patience)
            findings.append((condition.name, value is True))
        except EvaluationError as error:
            findings.append((condition.name, error))
    return findings


def first_false(findings: Sequence[ConditionFinding]) -> str | None:
    """The name of the first condition that is false; None where none is. A false one outweighs all errors."""
    return next((name for name, finding in findings if finding is False), None)


def errors_of(findings: Sequence[ConditionFinding]) -> list[str]:
    """Why conditions are neither true nor false."""
    return [str(finding) for _, finding in findings if isinstance(finding, EvaluationError)]
