"""ValidatingAdmissionPolicy: evaluate all bound policies for a review.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/validating``: ``dispatcher.go`` and ``validator.go``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Awaitable, Iterable, Sequence
from typing import TypeAlias

from pratique.admission.results import Allow, Answer, Deny, OutcomeStatus, PolicyOutcome
from pratique.admission.reviews import Review
from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.statuses import Status
from pratique.cel import costs
from pratique.cel.costs import Budget
from pratique.cel.errors import OutOfBudgetError
from pratique.cel.expressions import Expression
from pratique.configuration.admissionregistration import (
    ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec,
)
from pratique.policies.activation import (
    UNLIMITED,
    EvaluationLimits,
    ReviewActivations,
    answer_within_limits,
)
from pratique.policies.audit_annotations import (
    VALIDATION_FAILURE_ANNOTATION,
    AuditAnnotationCollector,
    failures_annotation,
)
from pratique.policies.compilation import (
    Binding,
    EvaluationResult,
    Policy,
    PolicyHook,
    PolicyHooks,
    ValidatingExpressions,
    compile_bindings,
    compile_expressions,
    compile_policy,
    evaluate_all,
    evaluate_match_conditions,
)
from pratique.policies.dispatcher import Invocation, Misconfigured, PolicyDispatcher, Unmatched
from pratique.policies.policy_spans import (
    ConfiguredBinding,
    ConfiguredPolicy,
    Span,
    divide_policies,
    parts_within,
)
from pratique.policies.validating_decisions import (
    PoliciesDecision,
    PolicyDecision,
    PolicyDecisionBuilder,
    ValidateResult,
    decide_annotations,
    decide_failure,
    decide_validations,
)
from pratique.telemetry.policy_metrics import PolicyCheck, PolicyCheckMetrics


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
        match = evaluate_match_conditions(self.policy, activations, params, limits)
        if match.error:
            return ValidateResult((decide_failure(match.error, fails_open=fails_open),))
        if match.exclusion:
            return ValidateResult(exclusion=match.exclusion)
        try:
            return self._decide(activations, params, limits)
        except OutOfBudgetError as error:
            return ValidateResult((decide_failure(str(error), fails_open=fails_open),))

    def _decide(
        self, activations: ReviewActivations, params: JSON, limits: EvaluationLimits
    ) -> ValidateResult:
        spec, budget = self.policy.spec, Budget(self.budget)
        seconds: list[float] = []
        results = self._evaluate(
            activations,
            params,
            limits,
            budget,
            self.expressions.validations,
            has_authorizer=True,
            seconds=seconds,
        )
        messages = self._messages(activations, params, limits, budget)
        decided = decide_validations(spec.validations, results, messages, fails_open=spec.fails_open)
        # The API server compiles annotations with an authorizer but evaluates them without one.
        annotated = self._evaluate(
            activations,
            params,
            limits,
            Budget(self.budget),
            self.expressions.annotations,
            has_authorizer=False,
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
            return self._evaluate(activations, params, limits, budget, messages, has_authorizer=False)
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
        has_authorizer: bool,
        seconds: list[float] | None = None,
    ) -> list[EvaluationResult]:
        if not expressions:
            return []
        activation_and_variables = activations.for_expressions(
            params, self.policy.variables, limits, has_authorizer=has_authorizer
        )
        return evaluate_all(expressions, activation_and_variables, budget, limits, seconds)


_Bindings: TypeAlias = tuple[Binding[ValidatingAdmissionPolicyBindingSpec], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _ValidatingHook(
    PolicyHook[ValidatingAdmissionPolicySpec, ValidatingAdmissionPolicyBindingSpec, ValidatingPolicyEvaluator]
):
    """A policy with its bindings and their numbers."""

    number: int
    """The number of the first part."""
    parts: tuple[_Bindings, ...]
    """The bindings, divided as they are numbered."""

    def bindings_within(self, span: Span | None) -> _Bindings:
        """The bindings that have numbers in ``span``."""
        return tuple(binding for part in parts_within(self.parts, self.number, span) for binding in part)


class ValidatingPolicies:
    """All bound ValidatingAdmissionPolicies, in the order of their evaluation."""

    def __init__(
        self,
        policies: Iterable[ConfiguredPolicy],
        bindings: Iterable[ConfiguredBinding],
    ) -> None:
        """Compile policies. Unbound policies and bindings without a policy have no effect.

        Raises:
            CompilationError: an expression does not compile; loading reports that before.
        """
        hooks: list[_ValidatingHook] = []
        number = 0
        for policy, parts in divide_policies(policies, bindings):
            hooks.append(_compile(policy, parts, number))
            number += len(parts)
        self._hooks = PolicyHooks(hooks)

    def __bool__(self) -> bool:
        """False if there are no bound policies."""
        return bool(self._hooks)

    def decide(
        self,
        review: Review,
        limits: EvaluationLimits = UNLIMITED,
        *,
        explain: bool = False,
        span: Span | None = None,
    ) -> PoliciesDecision:
        """Evaluate all policies, or a span of them. Gives their decisions in order.

        Nothing is changed, so that you can repeat a slow evaluation with a larger inline budget.

        Args:
            review: The review; its cluster holds Namespaces and parameters, and expressions use its authorizer.
            limits: The limits of the evaluation.
            explain: Include policies and bindings that do not match the request.
            span: The numbers to evaluate, of those that :func:`pratique.policies.policy_spans.policy_spans` gives; None
                means all. That a policy does not match is reported with its first number.

        Raises:
            SlowEvaluationError: it exceeds the inline budget.
        """
        if not self._hooks:
            return PoliciesDecision()
        return _ValidatingRun(review, limits, span, explain=explain).decide(
            self._hooks.candidates(review, explain=explain)
        )


def _compile(
    configured: ConfiguredPolicy, parts: Sequence[Sequence[ConfiguredBinding]], number: int
) -> _ValidatingHook:
    policy, compiler = compile_policy(configured)
    evaluator = ValidatingPolicyEvaluator(policy, compile_expressions(policy.spec, compiler))
    compiled = tuple(map(compile_bindings, parts))
    bindings = tuple(binding for part in compiled for binding in part)
    return _ValidatingHook(policy, bindings, evaluator, number, compiled)


class _ValidatingRun:
    """The evaluation of all policies for one review."""

    def __init__(self, review: Review, limits: EvaluationLimits, span: Span | None, *, explain: bool) -> None:
        self._dispatcher = PolicyDispatcher(review)
        self._limits = limits
        self._span = span
        self._explain = explain
        self._decisions: list[PolicyDecision] = []
        self._failures: list[JSONObject] = []
        self._annotations: dict[str, str] = {}
        self._checks: list[PolicyCheck] = []

    def decide(self, hooks: Iterable[_ValidatingHook]) -> PoliciesDecision:
        try:
            for hook in hooks:
                self._evaluate(hook)
        except RefusalError as error:
            return self._verdict(error.status)
        if self._failures:
            self._annotations[VALIDATION_FAILURE_ANNOTATION] = failures_annotation(self._failures)
        return self._verdict()

    def _verdict(self, refusal: Status | None = None) -> PoliciesDecision:
        return PoliciesDecision(tuple(self._decisions), self._annotations, refusal, tuple(self._checks))

    def _evaluate(self, hook: _ValidatingHook) -> None:
        bindings = hook.bindings_within(self._span)
        if not bindings:
            return
        policy, annotations, is_first = (
            hook.policy,
            AuditAnnotationCollector(),
            bindings[0] is hook.bindings[0],
        )
        for dispatch in self._dispatcher.dispatch(policy, bindings, reports_policy=is_first):
            builder = PolicyDecisionBuilder(self._dispatcher.review, policy, dispatch.binding)
            match dispatch:
                case Unmatched(reason=reason):
                    self._record(builder.skip(reason))
                case Misconfigured():
                    self._record(builder.misconfigured(dispatch.text))
                case Invocation():
                    for params in dispatch.params:
                        builder.add(
                            hook.evaluator.evaluate(dispatch.activations, params, self._limits), annotations
                        )
                    self._record(builder.conclude())
                    self._failures += builder.failures
                    self._checks += builder.checks
        self._annotations |= annotations.published(policy.name)

    def _record(self, decision: PolicyDecision) -> None:
        if self._explain or decision.outcome is not OutcomeStatus.SKIPPED:
            self._decisions.append(decision)


def validate(
    policies: ValidatingPolicies, review: Review, checks: PolicyCheckMetrics | None = None
) -> Answer | Awaitable[Answer]:
    """Evaluate validating policies for a review, and count their checks in ``checks``."""
    return answer_within_limits(functools.partial(_validate, policies, review, checks), review)


def _validate(
    policies: ValidatingPolicies, review: Review, checks: PolicyCheckMetrics | None, limits: EvaluationLimits
) -> Answer:
    decided = policies.decide(review, limits, explain=review.explain, span=review.span)
    if checks is not None and decided.checks:
        checks.observe(decided.checks)
    # Policies that simply allow are listed only with `explain`: a hundred of them cost as much as the whole review.
    outcomes = tuple(
        _policy_outcome(decision)
        for decision in decided.decisions
        if review.explain or decision.outcome is not OutcomeStatus.ALLOWED
    )
    if decided.status is None:
        return Allow(decided.warnings, decided.audit_annotations, outcomes)
    return Deny(decided.status, "", decided.warnings, decided.audit_annotations, outcomes)


def _policy_outcome(decision: PolicyDecision) -> PolicyOutcome:
    return PolicyOutcome(
        name=decision.policy,
        configuration=decision.binding,
        status=decision.outcome,
        reason=decision.reason,
        denials=decision.denials,
        duration_seconds=decision.seconds,
        unmet=decision.unmet,
    )
