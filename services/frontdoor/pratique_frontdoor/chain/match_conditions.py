"""Match conditions of webhooks: CEL that says which requests a webhook is called for."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery import statuses
from pratique.cel.costs import InlineBudget
from pratique.cel.environments import MATCH_CONDITION_ENVIRONMENT
from pratique.cel.errors import OutOfBudgetError, SlowEvaluationError
from pratique.cel.expressions import (
    CompiledCondition,
    ConditionResult,
    compile_expression,
    condition_errors,
    evaluate_conditions,
    first_false_condition,
)
from pratique.cel.policy_compiler import AdmissionActivation
from pratique.cel.values import Value
from pratique.cluster.authorization import continue_evaluation
from pratique.configuration.admissionregistration import MatchCondition
from pratique.processes.review_threads import work_beside_loop
from pratique.telemetry.policy_metrics import MatchConditionCheck
from pratique_frontdoor.chain.webhooks import Match, Matched, Refused, Skipped

_INLINE_BUDGET = 10_000
"""Cost that a webhook's conditions may have on the event loop: about 2 ms. Costlier ones continue in a thread."""


class MatchConditions(msgspec.Struct, frozen=True):
    """The compiled match conditions of one webhook."""

    fails_open: bool
    """Whether the webhook is skipped if a condition cannot be evaluated; otherwise the request is denied."""
    _conditions: tuple[CompiledCondition, ...]
    _observe: Callable[[str, MatchConditionCheck], None] | None = None

    @classmethod
    def compile(
        cls,
        conditions: Iterable[MatchCondition],
        *,
        fails_open: bool,
        observe: Callable[[str, MatchConditionCheck], None] | None = None,
    ) -> MatchConditions:
        """Compile conditions; ``observe`` is called with each operation and result.

        Raises:
            CompilationError: one does not compile; the message is the API server's.
        """
        compiled = (
            CompiledCondition(
                condition.name,
                compile_expression(condition.expression.strip(), MATCH_CONDITION_ENVIRONMENT, "bool"),
            )
            for condition in conditions
        )
        return cls(fails_open, tuple(compiled), observe)

    async def decide(self, review: Review, until: float | None = None) -> Match:
        """Decide whether the webhook is to be called.

        Args:
            review: The review, converted for the webhook.
            until: The deadline of the request, by ``time.monotonic``.
        """
        variables = AdmissionActivation(review, review.authorizer)
        try:
            return self._decide(review, variables, until, InlineBudget(_INLINE_BUDGET, _INLINE_BUDGET))
        except SlowEvaluationError as error:
            in_thread = functools.partial(
                work_beside_loop, review.received_values, self._decide, review, variables, until, None
            )
            return await continue_evaluation(in_thread, error, until)

    def _decide(
        self,
        review: Review,
        variables: Mapping[str, Value],
        until: float | None,
        inline_budget: InlineBudget | None,
    ) -> Match:
        begun = time.perf_counter()
        try:
            findings = evaluate_conditions(self._conditions, variables, until, inline_budget)
        except OutOfBudgetError as error:
            return self._count_match(review, self.failed(review, [str(error)]), (), begun)
        return self._count_match(review, self.conclude(review, findings), findings, begun)

    def _count_match(
        self, review: Review, match: Match, findings: Sequence[ConditionResult], begun: float
    ) -> Match:
        """Pass the result to the metrics."""
        if self._observe is not None:
            evaluated = tuple(itertools.takewhile(lambda finding: finding[1] is not False, findings))
            errors = len(condition_errors(evaluated))
            held, excluded = isinstance(match, Matched), isinstance(match, Skipped)
            check = MatchConditionCheck(time.perf_counter() - begun, held, errors, excluded)
            self._observe(review.operation, check)
        return match

    def conclude(self, review: Review, findings: Sequence[ConditionResult]) -> Match:
        """Combine the results: a false condition decides, then an error by failure policy."""
        if (name := first_false_condition(findings)) is not None:
            return Skipped(f"matchCondition {statuses.go_quoted(name)} is false")
        errors = condition_errors(findings)
        return self.failed(review, errors) if errors else Matched(review)

    def failed(self, review: Review, errors: Sequence[str]) -> Match:
        """Apply the failure policy to conditions that could not be evaluated."""
        text = statuses.aggregate(errors)
        if self.fails_open:
            return Skipped(f"matchConditions cannot be evaluated and failurePolicy is Ignore: {text}")
        resource = review.request_resource or review.resource
        return Refused(statuses.forbidden(resource.group, resource.resource, review.name, text))
