"""Match conditions: the CEL expressions that must all be true for a webhook to be called.

Source: ``k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions/matcher.go``.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import time
from typing import TYPE_CHECKING

from frontdoor.chain.matching import Match, Matched, Refused, Skipped
from pratique import statuses
from pratique.cel.admission_variables import AdmissionVariables
from pratique.cel.budgets import Patience
from pratique.cel.conditions import Condition, errors_of, evaluate_conditions, first_false
from pratique.cel.environments import MATCH_CONDITIONS
from pratique.cel.errors import OutOfBudgetError, SlowEvaluationError
from pratique.cel.expressions import compile_expression
from pratique.measures.match_conditions import ConditionCheck

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pratique.cel.conditions import ConditionFinding
    from pratique.cel.values import Value
    from pratique.configurations.webhooks import MatchCondition
    from pratique.reviews import Review

_PATIENCE = 10_000
"""What the conditions of a webhook may cost on the event loop: about 2 ms; what costs more goes on in a thread."""


@dataclasses.dataclass(frozen=True, slots=True)
class MatchConditions:
    """The conditions of one webhook, compiled."""

    fails_open: bool
    """Whether the webhook is skipped where a condition cannot be evaluated; else the request is refused."""
    _conditions: tuple[Condition, ...]
    _observe: Callable[[str, ConditionCheck], None] | None = None

    @classmethod
    def compile(
        cls,
        conditions: Iterable[MatchCondition],
        *,
        fails_open: bool,
        observe: Callable[[str, ConditionCheck], None] | None = None,
    ) -> MatchConditions:
        """Compile conditions; ``observe`` is told of each operation and what they came to.

        Raises:
            CompilationError: one does not compile, in the API server's words.
        """
        compiled = (
            Condition(one.name, compile_expression(one.expression.strip(), MATCH_CONDITIONS, "bool"))
            for one in conditions
        )
        return cls(fails_open, tuple(compiled), observe)

    async def decide(self, review: Review, until: float | None = None) -> Match:
        """Decide whether the webhook is to be called.

        Args:
            review: As the webhook wants to see it.
            until: When the request's time is up, by ``time.monotonic``.
        """
        variables = AdmissionVariables(review, review.authorizer)
        try:
            return self._decide(review, variables, until, Patience(_PATIENCE, _PATIENCE))
        except SlowEvaluationError:
            return await asyncio.to_thread(self._decide, review, variables, until, None)

    def _decide(
        self, review: Review, variables: Mapping[str, Value], until: float | None, patience: Patience | None
    ) -> Match:
        begun = time.perf_counter()
        try:
            findings = evaluate_conditions(self._conditions, variables, until, patience)
        except OutOfBudgetError as error:
            return self._told(review, self.failed(review, [str(error)]), (), begun)
        return self._told(review, self.conclude(review, findings), findings, begun)

    def _told(
        self, review: Review, match: Match, findings: Sequence[ConditionFinding], begun: float
    ) -> Match:
        """Tell whoever counts."""
        if self._observe is not None:
            errors = len(errors_of(tuple(itertools.takewhile(lambda one: one[1] is not False, findings))))
            held, excluded = isinstance(match, Matched), isinstance(match, Skipped)
            check = ConditionCheck(time.perf_counter() - begun, held, errors, excluded)
            self._observe(review.operation, check)
        return match

    def conclude(self, review: Review, findings: Sequence[ConditionFinding]) -> Match:
        """Weigh what the conditions came to: a false one decides, then an error by failure policy."""
        if (name := first_false(findings)) is not None:
            return Skipped(f"matchCondition {statuses.go_quoted(name)} is false")
        errors = errors_of(findings)
        return self.failed(review, errors) if errors else Matched(review)

    def failed(self, review: Review, errors: Sequence[str]) -> Match:
        """Weigh that conditions could not be evaluated: the failure policy decides."""
        text = statuses.aggregate(errors)
        if self.fails_open:
            return Skipped(f"matchConditions cannot be evaluated and failurePolicy is Ignore: {text}")
        resource = review.request_resource or review.resource
        return Refused(statuses.forbidden(resource.group, resource.resource, review.name, text))
