"""ValidatingAdmissionPolicy: all policies of an API server, and what they say of a review."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from pratique.admission.results import Allow, Answer, Deny, OutcomeStatus, Patch, PolicyOutcome
from pratique.admission.reviews import Review
from pratique.apimachinery import statuses
from pratique.apimachinery.diff import diff
from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.statuses import Status
from pratique.cel import costs
from pratique.cel.costs import Budget, InlineBudget
from pratique.cel.errors import OutOfBudgetError, SlowEvaluationError
from pratique.cel.expressions import Expression, condition_errors, evaluate_conditions, first_false_condition
from pratique.configuration.admissionregistration import (
    PolicyConfiguration,
    PolicySpec,
    ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec,
)
from pratique.policies.activation import UNLIMITED, EvaluationLimits, ReviewActivations
from pratique.policies.compilation import (
    Binding,
    EvaluationResult,
    Policy,
    PolicyHooks,
    ValidatingExpressions,
    compile_bindings,
    compile_expressions,
    compile_policy,
    evaluate_all,
)
from pratique.policies.dispatcher import Invocation, Misconfigured, PolicyDispatcher, Unmatched
from pratique.policies.validating_decisions import (
    VALIDATION_FAILURE_ANNOTATION,
    AuditAnnotationCollector,
    PoliciesDecision,
    PolicyDecision,
    PolicyDecisionBuilder,
    ValidateResult,
    decide_annotations,
    decide_validations,
    failure,
    failures_annotation,
)
from pratique.telemetry.policy_metrics import PolicyCheck, PolicyCheckMetrics

if TYPE_CHECKING:
    from pratique.policies.mutating import MutatingPolicies, MutatingPoliciesDecision, MutatingPolicyDecision


@dataclasses.dataclass(frozen=True, slots=True)
class ValidatingPolicyEvaluator:
    """A ValidatingAdmissionPolicy ready to be evaluated."""

    policy: Policy[ValidatingAdmissionPolicySpec]
    expressions: ValidatingExpressions
    budget: int = costs.RUNTIME_COST_BUDGET
    """What its expressions may cost together, by binding and parameter."""

    def evaluate(
        self, activations: ReviewActivations, params: JSON, limits: EvaluationLimits
    ) -> ValidateResult:
        """Evaluate the policy. Raises SlowEvaluationError where that takes more than there is patience for."""
        fails_open = self.policy.spec.fails_open
        outcome = evaluate_match_conditions(self.policy, activations, params, limits)
        if outcome.error:
            return ValidateResult((failure(outcome.error, fails_open=fails_open),))
        if outcome.unmet:
            return ValidateResult(unmet=outcome.unmet)
        try:
            return self._decide(activations, params, limits)
        except OutOfBudgetError as error:
            return ValidateResult((failure(str(error), fails_open=fails_open),))

    def _decide(
        self, activations: ReviewActivations, params: JSON, limits: EvaluationLimits
    ) -> ValidateResult:
        spec, budget = self.policy.spec, Budget(self.budget)
        seconds: list[float] = []
        findings = self._evaluate(
            activations,
            params,
            limits,
            budget,
            self.expressions.validations,
            authorizes=True,
            seconds=seconds,
        )
        messages = self._messages(activations, params, limits, budget)
        decided = decide_validations(spec.validations, findings, messages, fails_open=spec.fails_open)
        # The API server does not show them the authorizer that it compiles them with.
        annotated = self._evaluate(
            activations, params, limits, Budget(self.budget), self.expressions.annotations, authorizes=False
        )
        annotations = decide_annotations(spec.audit_annotations, annotated, fails_open=spec.fails_open)
        return ValidateResult(decided, annotations, seconds=tuple(seconds))

    def _messages(
        self, activations: ReviewActivations, params: JSON, limits: EvaluationLimits, budget: Budget
    ) -> Sequence[EvaluationResult] | OutOfBudgetError:
        """Evaluate all messages, even those that nobody will read: the API server does, and it tells in the cost."""
        messages = self.expressions.messages
        if not any(messages):
            return messages
        try:
            return self._evaluate(activations, params, limits, budget, messages, authorizes=False)
        except OutOfBudgetError as error:
            return error

    def _evaluate(
        self,
        activations: ReviewActivations,
        params: JSON,
        limits: EvaluationLimits,
        budget: Budget,
        expressions: Sequence[Expression | None],
        *,
        authorizes: bool,
        seconds: list[float] | None = None,
    ) -> list[EvaluationResult]:
        if not expressions:
            return []
        seen = activations.for_expressions(params, self.policy.variables, limits, has_authorizer=authorizes)
        return evaluate_all(expressions, seen, budget, limits, seconds)


@dataclasses.dataclass(frozen=True, slots=True)
class MatchResult:
    """What the match conditions of a policy come to; neither text is there where all hold."""

    unmet: str = ""
    """Why the policy says nothing of the request."""
    error: str = ""
    """Why it cannot be told, where the failure policy refuses then."""


def evaluate_match_conditions(
    policy: Policy[PolicySpec], activations: ReviewActivations, params: JSON, limits: EvaluationLimits
) -> MatchResult:
    """Weigh the match conditions of a policy of either kind.

    Raises:
        SlowEvaluationError: it takes more than there is patience for.
    """
    if not policy.conditions:
        return MatchResult()
    variables = activations.for_conditions(params)
    try:
        findings = evaluate_conditions(policy.conditions, variables, limits.until, limits.inline_budget)
    except OutOfBudgetError as error:
        return _conditions_failed(str(error), policy)
    if (name := first_false_condition(findings)) is not None:
        return MatchResult(unmet=f"matchCondition {statuses.go_quoted(name)} is false")
    errors = condition_errors(findings)
    return _conditions_failed(statuses.aggregate(errors), policy) if errors else MatchResult()


def _conditions_failed(text: str, policy: Policy[PolicySpec]) -> MatchResult:
    if policy.spec.fails_open:
        return MatchResult(unmet=f"matchConditions cannot be evaluated and failurePolicy is Ignore: {text}")
    return MatchResult(error=text)


INLINE_COST = 10_000
"""What all policies may cost on the event loop for one review: about 2 ms; what costs more goes on in a thread."""


def judge(
    policies: ValidatingPolicies, review: Review, checks: PolicyCheckMetrics | None = None
) -> Answer | Awaitable[Answer]:
    """Ask validating policies about a review, and count among ``checks`` what they come to."""
    return _ask(functools.partial(_judged, policies, review, checks), review)


def admit(
    policies: MutatingPolicies, review: Review, checks: PolicyCheckMetrics | None = None
) -> Answer | Awaitable[Answer]:
    """Have mutating policies change the object of a review, and count among ``checks`` what they come to."""
    return _ask(functools.partial(_admitted, policies, review, checks), review)


def _ask(decide: Callable[[EvaluationLimits], Answer], review: Review) -> Answer | Awaitable[Answer]:
    """Answer at once; or, where that takes long, in a thread that lets others run."""
    until = review.deadline.at if review.deadline is not None else None
    try:
        return decide(EvaluationLimits(until, InlineBudget(INLINE_COST, INLINE_COST)))
    except SlowEvaluationError:
        return asyncio.to_thread(decide, EvaluationLimits(until))


def _judged(
    policies: ValidatingPolicies, review: Review, checks: PolicyCheckMetrics | None, limits: EvaluationLimits
) -> Answer:
    verdict = policies.decide(review, limits, explain=review.explain)
    if checks is not None and verdict.checks:
        checks.observe(verdict.checks)
    # Those that have nothing to say are told of only where somebody wants to know: a hundred of them cost as much to
    # tell as a review does.
    parts = tuple(
        _validating_part(one)
        for one in verdict.decisions
        if review.explain or one.outcome is not OutcomeStatus.ALLOWED
    )
    if verdict.status is None:
        return Allow(verdict.warnings, verdict.audit_annotations, parts)
    return Deny(verdict.status, "", verdict.warnings, verdict.audit_annotations, parts)


def _validating_part(decision: PolicyDecision) -> PolicyOutcome:
    return PolicyOutcome(
        name=decision.policy,
        configuration=decision.binding,
        status=decision.outcome,
        reason=decision.reason,
        denials=decision.denials,
        duration_seconds=decision.seconds,
        unmet=decision.unmet,
    )


def _admitted(
    policies: MutatingPolicies, review: Review, checks: PolicyCheckMetrics | None, limits: EvaluationLimits
) -> Answer:
    admittance = policies.admit(review, limits, again=review.only, explain=review.explain)
    if checks is not None and admittance.checks:
        checks.observe(admittance.checks)
    parts = tuple(_mutating_part(one, admittance) for one in admittance.decisions)
    if admittance.refusal is not None:
        return Deny(admittance.refusal, policy_outcomes=parts)
    if admittance.document is review.object_document:
        return Allow(policy_outcomes=parts)
    changed = admittance.document.data
    operations = admittance.operations
    if operations is None:
        operations = tuple(diff(review.object, changed))
    return Patch(operations, changed, policy_outcomes=parts)


def _mutating_part(decision: MutatingPolicyDecision, admittance: MutatingPoliciesDecision) -> PolicyOutcome:
    return PolicyOutcome(
        name=decision.policy,
        configuration=decision.binding,
        status=decision.outcome,
        reason=decision.reason,
        operations=decision.operations,
        key=decision.key if decision.ran else "",
        reinvocable=decision.reinvocable,
        applied=decision.ran and admittance.dirty,
        duration_seconds=decision.seconds,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Hook:
    """A policy, and what binds it."""

    evaluator: ValidatingPolicyEvaluator
    bindings: tuple[Binding[ValidatingAdmissionPolicyBindingSpec], ...]

    @property
    def policy(self) -> Policy[ValidatingAdmissionPolicySpec]:
        """The policy."""
        return self.evaluator.policy


class ValidatingPolicies:
    """All ValidatingAdmissionPolicies that are bound, in the order in which they are asked."""

    def __init__(
        self,
        policies: Iterable[PolicyConfiguration[ValidatingAdmissionPolicySpec]],
        bindings: Iterable[PolicyConfiguration[ValidatingAdmissionPolicyBindingSpec]],
    ) -> None:
        """Compile policies. Those that nothing binds are never asked; bindings without policy do nothing.

        Raises:
            CompilationError: an expression does not compile, which loading it would have told.
        """
        binding_list = list(bindings)
        hooks = (_hook(policy, binding_list) for policy in policies)
        self._hooks = PolicyHooks(hook for hook in hooks if hook.bindings)

    def __bool__(self) -> bool:
        """False where there is nothing to ask."""
        return bool(self._hooks)

    def decide(
        self, review: Review, limits: EvaluationLimits = UNLIMITED, *, explain: bool = False
    ) -> PoliciesDecision:
        """Ask all policies, and give what they say in their order.

        Nothing is changed by it, so that what takes too long can be asked again elsewhere, with more patience.

        Args:
            review: The review; its cluster holds Namespaces and parameters, its authorizer is asked by expressions.
            limits: How long, and with how much patience, expressions are evaluated.
            explain: Tell of policies and bindings that say nothing of the request, too.

        Raises:
            SlowEvaluationError: it takes more than there is patience for.
        """
        if not self._hooks:
            return PoliciesDecision()
        return _Run(review, limits, explain=explain).decide(self._hooks.of(review, explain=explain))


def _hook(
    configured: PolicyConfiguration[ValidatingAdmissionPolicySpec],
    bindings: list[PolicyConfiguration[ValidatingAdmissionPolicyBindingSpec]],
) -> _Hook:
    policy, compiler = compile_policy(configured)
    evaluator = ValidatingPolicyEvaluator(policy, compile_expressions(policy.spec, compiler))
    return _Hook(evaluator, compile_bindings(policy, bindings))


class _Run:
    """The policies asked about one review."""

    def __init__(self, review: Review, limits: EvaluationLimits, *, explain: bool) -> None:
        self._dispatcher = PolicyDispatcher(review)
        self._limits = limits
        self._explain = explain
        self._judgements: list[PolicyDecision] = []
        self._failures: list[JSONObject] = []
        self._annotations: dict[str, str] = {}
        self._checks: list[PolicyCheck] = []

    def decide(self, hooks: Iterable[_Hook]) -> PoliciesDecision:
        try:
            for hook in hooks:
                self._ask(hook)
        except RefusalError as error:
            return self._verdict(error.status)
        if self._failures:
            self._annotations[VALIDATION_FAILURE_ANNOTATION] = failures_annotation(self._failures)
        return self._verdict()

    def _verdict(self, refusal: Status | None = None) -> PoliciesDecision:
        return PoliciesDecision(tuple(self._judgements), self._annotations, refusal, tuple(self._checks))

    def _ask(self, hook: _Hook) -> None:
        policy, annotations = hook.evaluator.policy, AuditAnnotationCollector()
        for step in self._dispatcher.invocations(policy, hook.bindings):
            judging = PolicyDecisionBuilder(self._dispatcher.review, policy, step.binding)
            match step:
                case Unmatched(reason=reason):
                    self._note(judging.skip(reason))
                case Misconfigured():
                    self._note(judging.misconfigured(step.text))
                case Invocation():
                    for params in step.params:
                        judging.add(
                            hook.evaluator.evaluate(step.activations, params, self._limits), annotations
                        )
                    self._note(judging.conclude())
                    self._failures += judging.failures
                    self._checks += judging.checks
        self._annotations |= annotations.published(policy.name)

    def _note(self, decision: PolicyDecision) -> None:
        if self._explain or decision.outcome is not OutcomeStatus.SKIPPED:
            self._judgements.append(decision)
