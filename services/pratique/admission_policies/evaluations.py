"""Evaluations: several expressions of a policy, one after another, from one budget.

Source: ``k8s.io/apiserver/pkg/admission/plugin/cel/condition.go`` ``ForInput`` and ``activation.go`` ``Evaluate``.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeAlias

from pratique.cel.errors import EvaluationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pratique.admission_policies.sights import Limits
    from pratique.cel.budgets import Budget
    from pratique.cel.compositions import Composition
    from pratique.cel.expressions import Expression
    from pratique.cel.values import Value

Finding: TypeAlias = "Value | EvaluationError"
"""What an expression came to: a value, or why it has none."""


def evaluate_all(
    expressions: Sequence[Expression | None],
    seen: tuple[Mapping[str, Value], Composition],
    budget: Budget,
    limits: Limits,
    seconds: list[float] | None = None,
) -> list[Finding]:
    """Evaluate expressions; one that is None comes to null. ``seconds`` gets how long each took.

    Raises:
        OutOfBudgetError: the budget is used up; what has been found so far is void.
        SlowEvaluationError: it takes more than the patience that there is.
    """
    activation, composition = seen
    findings: list[Finding] = []
    for expression in expressions:
        if expression is None:
            findings.append(None)
            continue
        begun = time.perf_counter()
        try:
            found = expression.evaluate(activation, budget, until=limits.until, patience=limits.patience)
        except EvaluationError as error:
            found = error
        composition.settle(budget)
        findings.append(found)
        if seconds is not None:
            seconds.append(time.perf_counter() - begun)
    return findings
