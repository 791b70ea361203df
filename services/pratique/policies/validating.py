"""ValidatingAdmissionPolicy: evaluate all bound policies for a review.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/validating``: ``dispatcher.go`` and ``validator.go``.
"""

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
    """Evaluates a compiled ValidatingAdmissionPolicy."""

    policy: Policy[ValidatingAdmissionPolicySpec]
    expressions: ValidatingExpressions
    budget: int = costs.RUNTIME_COST_BUDGET
    """The most that its expressions may cost together, for each binding and parameter."""

    def evaluate(
        self, activations: ReviewActivations, params: JSON, limits: EvaluationLimits
    ) -> ValidateResult:
        """Evaluate the policy. Raises SlowEvaluationError if that exceeds the inline budget."""
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
        # The API server compiles annotations with an authorizer but evaluates them without one.
        annotated = self._evaluate(
            activations, params, limits, Budget(self.budget), self.expressions.annotations, authorizes=False
        )
        annotations = decide_annotations(spec.audit_annotations, annotated, fails_open=spec.fails_open)
        return ValidateResult(decided, annotations, seconds=tuple(seconds))

    def _messages(
        self, activations: ReviewActivations, params: JSON, limits: EvaluationLimits, budget: Budget
    ) -> Sequence[EvaluationResult] | OutOfBudgetError:
        """Evaluate all messages, even unused ones: the API server does, and they count towards the cost."""
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
    """The result of a policy's match conditions; both texts are empty if all conditions are true."""

    unmet: str = ""
    """Why the conditions exclude the request."""
    error: str = ""
    """The error of evaluating them, if the failure policy is Fail."""


def evaluate_match_conditions(
    policy: Policy[PolicySpec], activations: ReviewActivations, params: JSON, limits: EvaluationLimits
) -> MatchResult:
    """Evaluate the match conditions of a policy of either kind.

    Raises:
        SlowEvaluationError: they exceed the inline budget.
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
"""The most that all policies may cost on the event loop for one review, about 2 ms; beyond that, a thread evaluates
them."""


def judge(
    policies: ValidatingPolicies, review: Review, checks: PolicyCheckMetrics | None = None
) -> Answer | Awaitable[Answer]:
    """Evaluate validating policies for a review, and count their checks in ``checks``."""
    return _ask(functools.partial(_judged, policies, review, checks), review)


def admit(
    policies: MutatingPolicies, review: Review, checks: PolicyCheckMetrics | None = None
) -> Answer | Awaitable[Answer]:
    """Let mutating policies change the object of a review, and count their checks in ``checks``."""
    return _ask(functools.partial(_admitted, policies, review, checks), review)


def _ask(decide: Callable[[EvaluationLimits], Answer], review: Review) -> Answer | Awaitable[Answer]:
    """Answer at once, or in a thread if that exceeds the inline budget."""
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
    # Policies that simply allow are listed only with `explain`: a hundred of them cost as much as the whole review.
    parts = tuple(
        _validating_part(decision)
        for decision in verdict.decisions
        if review.explain or decision.outcome is not OutcomeStatus.ALLOWED
    )
    if verdict.status is None:
        return Allow(verdict.warnings, verdict.audit_annotations, parts)
    return Deny(verdict.status, "", verdict.warnings, verdict.audit_annotations, parts)


def _validating_part(decision: PolicyDecision) -> PolicyOutcome:
    return PolicyOutcome(
        name=decision.policy,
        configuration=decision.binding,
        ending=decision.outcome,
        reason=decision.reason,
        denials=decision.denials,
        duration_seconds=decision.seconds,
        unmet=decision.unmet,
    )


def _admitted(
    policies: MutatingPolicies, review: Review, checks: PolicyCheckMetrics | None, limits: EvaluationLimits
) -> Answer:
    admittance = policies.admit(review, limits, again=review.again, explain=review.explain)
    if checks is not None and admittance.checks:
        checks.observe(admittance.checks)
    parts = tuple(_mutating_part(decision, admittance) for decision in admittance.decisions)
    if admittance.refusal is not None:
        return Deny(admittance.refusal, parts=parts)
    if admittance.document is review.object_document:
        return Allow(parts=parts)
    changed = admittance.document.data
    operations = admittance.operations
    if operations is None:
        operations = tuple(diff(review.object, changed))
    return Patch(operations, changed, parts=parts)


def _mutating_part(decision: MutatingPolicyDecision, admittance: MutatingPoliciesDecision) -> PolicyOutcome:
    return PolicyOutcome(
        name=decision.policy,
        configuration=decision.binding,
        ending=decision.outcome,
        reason=decision.reason,
        operations=decision.operations,
        key=decision.key if decision.ran else "",
        reinvocable=decision.reinvocable,
        applied=decision.ran and admittance.dirty,
        duration_seconds=decision.seconds,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Hook:
    """A policy with its evaluator and bindings."""

    evaluator: ValidatingPolicyEvaluator
    bindings: tuple[Binding[ValidatingAdmissionPolicyBindingSpec], ...]

    @property
    def policy(self) -> Policy[ValidatingAdmissionPolicySpec]:
        """The policy."""
        return self.evaluator.policy


class ValidatingPolicies:
    """All bound ValidatingAdmissionPolicies, in the order of their evaluation."""

    def __init__(
        self,
        policies: Iterable[PolicyConfiguration[ValidatingAdmissionPolicySpec]],
        bindings: Iterable[PolicyConfiguration[ValidatingAdmissionPolicyBindingSpec]],
    ) -> None:
        """Compile policies. Unbound policies and bindings without a policy have no effect.

        Raises:
            CompilationError: an expression does not compile; loading reports that before.
        """
        binding_list = list(bindings)
        hooks = (_hook(policy, binding_list) for policy in policies)
        self._hooks = PolicyHooks(hook for hook in hooks if hook.bindings)

    def __bool__(self) -> bool:
        """False if there are no bound policies."""
        return bool(self._hooks)

    def decide(
        self, review: Review, limits: EvaluationLimits = UNLIMITED, *, explain: bool = False
    ) -> PoliciesDecision:
        """Evaluate all policies. Gives their decisions in order.

        Nothing is changed, so that you can repeat a slow evaluation with a larger inline budget.

        Args:
            review: The review; its cluster holds Namespaces and parameters, and expressions use its authorizer.
            limits: The limits of the evaluation.
            explain: Include policies and bindings that do not match the request.

        Raises:
            SlowEvaluationError: it exceeds the inline budget.
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
    """The evaluation of all policies for one review."""

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
