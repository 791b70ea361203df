"""Which of the requests that its rules match a Python policy is called for: by selectors and match conditions.

They mean what they mean in a webhook: ``namespaceSelector``, ``objectSelector``, ``matchConditions`` and, where these
cannot be decided, ``failurePolicy``. Unlike rules, they look at objects, so that they are decided by the service that
runs the policy, on the object as it is when the policy's turn comes.
Sources: ``k8s.io/apiserver/pkg/admission/plugin/webhook/generic/webhook.go`` ``ShouldCallHook`` and
``…/webhook/matchconditions/matcher.go``.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from pratique.admission.controllers import Controller, FailurePolicy
from pratique.admission.matching import MatchContext, SelectorOrStatus, compile_selector_or_status
from pratique.admission.reviews import Review
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.selectors import EVERYTHING
from pratique.apimachinery.statuses import Status
from pratique.cluster.authorization import continue_evaluation
from pratique.processes.review_threads import work_beside_loop

if TYPE_CHECKING:
    from pratique.cel.costs import InlineBudget
    from pratique.cel.expressions import CompiledCondition

_INLINE_BUDGET = 10_000
"""Cost that conditions may have on the event loop: about 2 ms. Costlier ones continue in a thread."""

Verdict: TypeAlias = "str | Status"
"""Why a policy is not called, empty if it is; or the Status that denies a review that cannot be matched."""

_CALLED = ""


class RequestSelection(msgspec.Struct, frozen=True):
    """The compiled selectors and conditions of one policy."""

    namespace_selector: SelectorOrStatus
    object_selector: SelectorOrStatus
    conditions: tuple[CompiledCondition, ...]
    fails_open: bool
    """Whether the policy is skipped where they cannot be decided; otherwise the request is denied."""

    @classmethod
    def of(cls, controller: Controller) -> RequestSelection | None:
        """Compile those of a controller; None if it is called for every request that its rules match.

        Raises:
            ConfigurationError: a selector is invalid, or a condition does not compile.
        """
        if not controller.selects_requests:
            return None
        selectors = []
        for field, selector in (
            ("namespace_selector", controller.namespace_selector),
            ("object_selector", controller.object_selector),
        ):
            compiled = compile_selector_or_status(selector or EVERYTHING)
            if isinstance(compiled, Status):
                raise ConfigurationError(f"{field}: {compiled.message}")
            selectors.append(compiled)
        fails_open = controller.failure_policy is FailurePolicy.IGNORE
        return cls(selectors[0], selectors[1], _compiled(controller), fails_open)

    async def decide(self, review: Review, until: float | None = None) -> Verdict:
        """Decide whether the policy is called.

        Args:
            review: The review, with the object as it is now and the service's cluster.
            until: The deadline of the call, by ``time.monotonic``.
        """
        subject = MatchContext(review)
        in_namespace = subject.selects_namespace(self.namespace_selector)
        if in_namespace is False:
            return "namespace_selector does not match the labels of the namespace"
        selected = subject.selects_object(self.object_selector)
        if selected is False:
            return "object_selector matches the labels of neither object nor oldObject"
        for refusal in (in_namespace, selected):
            if isinstance(refusal, Status):
                return self._undecided(refusal)
        return await self._decide_conditions(review, until) if self.conditions else _CALLED

    async def _decide_conditions(self, review: Review, until: float | None) -> Verdict:
        # Imported here, as in `_compiled`: CEL is half of what a service without conditions would import.
        from pratique.cel.costs import InlineBudget  # noqa: PLC0415
        from pratique.cel.errors import SlowEvaluationError  # noqa: PLC0415

        try:
            return self._evaluate(review, until, InlineBudget(_INLINE_BUDGET, _INLINE_BUDGET))
        except SlowEvaluationError as error:
            in_thread = functools.partial(
                work_beside_loop, review.received_values, self._evaluate, review, until, None
            )
            return await continue_evaluation(in_thread, error, until)

    def _evaluate(self, review: Review, until: float | None, inline_budget: InlineBudget | None) -> Verdict:
        from pratique.cel.errors import OutOfBudgetError  # noqa: PLC0415
        from pratique.cel.expressions import (  # noqa: PLC0415
            condition_errors,
            evaluate_conditions,
            first_false_condition,
        )
        from pratique.cel.policy_compiler import AdmissionActivation  # noqa: PLC0415

        variables = AdmissionActivation(review, review.authorizer)
        try:
            findings = evaluate_conditions(self.conditions, variables, until, inline_budget)
        except OutOfBudgetError as error:
            return self._undecided_conditions(review, [str(error)])
        # A false condition outweighs errors of others.
        if (name := first_false_condition(findings)) is not None:
            return f"match_condition {statuses.go_quoted(name)} is false"
        errors = condition_errors(findings)
        return self._undecided_conditions(review, errors) if errors else _CALLED

    def _undecided_conditions(self, review: Review, errors: list[str]) -> Verdict:
        resource = review.request_resource or review.resource
        text = statuses.aggregate(errors)
        return self._undecided(statuses.forbidden(resource.group, resource.resource, review.name, text))

    def _undecided(self, status: Status) -> Verdict:
        if self.fails_open:
            return (
                f"whether it is called cannot be decided, and its failure policy is Ignore: {status.message}"
            )
        return status


def _compiled(controller: Controller) -> tuple[CompiledCondition, ...]:
    if not controller.match_conditions:
        return ()
    from pratique.cel.environments import MATCH_CONDITION_ENVIRONMENT  # noqa: PLC0415
    from pratique.cel.errors import CompilationError  # noqa: PLC0415
    from pratique.cel.expressions import CompiledCondition, compile_expression  # noqa: PLC0415

    compiled = []
    for name, expression in controller.match_conditions.items():
        try:
            found = compile_expression(expression.strip(), MATCH_CONDITION_ENVIRONMENT, "bool")
        except CompilationError as error:
            raise ConfigurationError(f"match_conditions[{name}]: {error}") from None
        compiled.append(CompiledCondition(name, found))
    return tuple(compiled)
