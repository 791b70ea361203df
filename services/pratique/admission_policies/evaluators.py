"""Evaluators: what one ValidatingAdmissionPolicy comes to, with one parameter.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/validating/validator.go`` ``Validate``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique import statuses
from pratique.admission_policies.decisions import (
    Decisions,
    decide_annotations,
    decide_validations,
    failure,
)
from pratique.admission_policies.evaluations import evaluate_all
from pratique.cel import costs
from pratique.cel.budgets import Budget
from pratique.cel.conditions import errors_of, evaluate_conditions, first_false
from pratique.cel.errors import OutOfBudgetError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pratique.admission_policies.compilation import Expressions, Policy
    from pratique.admission_policies.evaluations import Finding
    from pratique.admission_policies.sights import Limits, Sight
    from pratique.cel.expressions import Expression
    from pratique.configurations.policies import PolicySpec, ValidatingSpec
    from pratique.json_values import JSON


@dataclasses.dataclass(frozen=True, slots=True)
class Evaluator:
    """A ValidatingAdmissionPolicy ready to be evaluated."""

    policy: Policy[ValidatingSpec]
    expressions: Expressions
    budget: int = costs.PER_POLICY
    """What its expressions may cost together, by binding and parameter."""

    def evaluate(self, sight: Sight, params: JSON, limits: Limits) -> Decisions:
        """Evaluate the policy. Raises SlowEvaluationError where that takes more than there is patience for."""
        fails_open = self.policy.spec.fails_open
        outcome = weigh_conditions(self.policy, sight, params, limits)
        if outcome.error:
            return Decisions((failure(outcome.error, fails_open=fails_open),))
        if outcome.unmet:
            return Decisions(unmet=outcome.unmet)
        try:
            return self._decide(sight, params, limits)
        except OutOfBudgetError as error:
            return Decisions((failure(str(error), fails_open=fails_open),))

    def _decide(self, sight: Sight, params: JSON, limits: Limits) -> Decisions:
        spec, budget = self.policy.spec, Budget(self.budget)
        seconds: list[float] = []
        findings = self._evaluate(
            sight, params, limits, budget, self.expressions.validations, authorizes=True, seconds=seconds
        )
        messages = self._messages(sight, params, limits, budget)
        decided = decide_validations(spec.validations, findings, messages, fails_open=spec.fails_open)
        # The API server does not show them the authorizer that it compiles them with.
        annotated = self._evaluate(
            sight, params, limits, Budget(self.budget), self.expressions.annotations, authorizes=False
        )
        annotations = decide_annotations(spec.audit_annotations, annotated, fails_open=spec.fails_open)
        return Decisions(decided, annotations, seconds=tuple(seconds))

    def _messages(
        self, sight: Sight, params: JSON, limits: Limits, budget: Budget
    ) -> Sequence[Finding] | OutOfBudgetError:
        """Evaluate all messages, even those that nobody will read: the API server does, and it tells in the cost."""
        messages = self.expressions.messages
        if not any(messages):
            return messages
        try:
            return self._evaluate(sight, params, limits, budget, messages, authorizes=False)
        except OutOfBudgetError as error:
            return error

    def _evaluate(
        self,
        sight: Sight,
        params: JSON,
        limits: Limits,
        budget: Budget,
        expressions: Sequence[Expression | None],
        *,
        authorizes: bool,
        seconds: list[float] | None = None,
    ) -> list[Finding]:
        if not expressions:
            return []
        seen = sight.for_expressions(params, self.policy.variables, limits, has_authorizer=authorizes)
        return evaluate_all(expressions, seen, budget, limits, seconds)


@dataclasses.dataclass(frozen=True, slots=True)
class ConditionsOutcome:
    """What the match conditions of a policy come to; neither text is there where all hold."""

    unmet: str = ""
    """Why the policy says nothing of the request."""
    error: str = ""
    """Why it cannot be told, where the failure policy refuses then."""


def weigh_conditions(
    policy: Policy[PolicySpec], sight: Sight, params: JSON, limits: Limits
) -> ConditionsOutcome:
    """Weigh the match conditions of a policy of either kind.

    Raises:
        SlowEvaluationError: it takes more than there is patience for.
    """
    if not policy.conditions:
        return ConditionsOutcome()
    variables = sight.for_conditions(params)
    try:
        findings = evaluate_conditions(policy.conditions, variables, limits.until, limits.patience)
    except OutOfBudgetError as error:
        return _unweighable(str(error), policy)
    if (name := first_false(findings)) is not None:
        return ConditionsOutcome(unmet=f"matchCondition {statuses.go_quoted(name)} is false")
    errors = errors_of(findings)
    return _unweighable(statuses.aggregate(errors), policy) if errors else ConditionsOutcome()


def _unweighable(text: str, policy: Policy[PolicySpec]) -> ConditionsOutcome:
    if policy.spec.fails_open:
        return ConditionsOutcome(
            unmet=f"matchConditions cannot be evaluated and failurePolicy is Ignore: {text}"
        )
    return ConditionsOutcome(error=text)
