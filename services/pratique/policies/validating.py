"""ValidatingAdmissionPolicy: evaluate all bound policies for a review.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/validating``: ``dispatcher.go`` and ``validator.go``.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from pratique.admission.matching import MatchedResource, RequestKey
from pratique.admission.results import Allow, Answer, Deny, OutcomeStatus, PolicyOutcome
from pratique.admission.reviews import Review
from pratique.apimachinery.errors import ConversionError, RefusalError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.statuses import Status
from pratique.cel import costs
from pratique.cel.costs import Budget
from pratique.cel.errors import OutOfBudgetError, SlowEvaluationError
from pratique.cluster.api_resources import ApiResources
from pratique.cluster.conversion import PendingConversionError, without_conversion_webhooks
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
    CANDIDATE_CACHE_SIZE,
    Binding,
    EvaluationResult,
    Policy,
    ValidatingExpressions,
    compile_bindings,
    compile_expressions,
    compile_policy,
    evaluate_all,
    evaluate_match_conditions,
)
from pratique.policies.dispatcher import Invocation, Misconfigured, PolicyDispatcher, Unmatched
from pratique.policies.exceptions import NO_EXEMPTIONS, Exemptions, exemption_annotation
from pratique.policies.matching import is_excluded
from pratique.policies.policy_spans import (
    ConfiguredBinding,
    ConfiguredPolicy,
    Span,
    divide_policies,
)
from pratique.policies.rollouts import NO_ROLLOUTS, Rollouts
from pratique.policies.validating_decisions import (
    HELD,
    PoliciesDecision,
    PolicyAuditAnnotation,
    PolicyDecision,
    PolicyDecisionBuilder,
    ValidateResult,
    decide_annotations,
    decide_failure,
    decide_validations,
)
from pratique.telemetry.policy_metrics import PolicyCheck, PolicyCheckMetrics


class ValidatingPolicyEvaluator(msgspec.Struct, frozen=True):
    """Evaluates a compiled ValidatingAdmissionPolicy."""

    policy: Policy[ValidatingAdmissionPolicySpec]
    expressions: ValidatingExpressions
    budget: int = costs.RUNTIME_COST_BUDGET
    """The most that its expressions may cost together, for each binding and parameter."""

    def evaluate(
        self, activations: ReviewActivations, params: JSON, limits: EvaluationLimits
    ) -> ValidateResult:
        """Evaluate the policy. Gives :data:`HELD` if it simply allows the request.

        Raises:
            SlowEvaluationError: it exceeds the inline budget.
        """
        policy = self.policy
        if policy.conditions:
            match = evaluate_match_conditions(policy, activations, params, limits)
            if match.error:
                return ValidateResult((decide_failure(match.error, fails_open=policy.spec.fails_open),))
            if match.exclusion:
                return ValidateResult(exclusion=match.exclusion)
        try:
            return self._decide(activations, params, limits)
        except OutOfBudgetError as error:
            return ValidateResult((decide_failure(str(error), fails_open=policy.spec.fails_open),))

    def _decide(
        self, activations: ReviewActivations, params: JSON, limits: EvaluationLimits
    ) -> ValidateResult:
        expressions, budget = self.expressions, Budget(self.budget)
        seconds: list[float] = []
        activation = activations.for_expressions(params, self.policy.variables, limits, has_authorizer=True)
        results = evaluate_all(expressions.validations, activation, budget, limits, seconds)
        messages = self._messages(activations, params, limits, budget) if expressions.has_messages else ()
        holds = results == expressions.all_true and type(messages) is not OutOfBudgetError
        if holds and not expressions.annotations:
            return HELD
        spec = self.policy.spec
        decided = decide_validations(
            spec.validations, results, messages or expressions.messages, fails_open=spec.fails_open
        )
        return ValidateResult(decided, self._annotations(activations, params, limits), seconds=tuple(seconds))

    def _messages(
        self, activations: ReviewActivations, params: JSON, limits: EvaluationLimits, budget: Budget
    ) -> Sequence[EvaluationResult] | OutOfBudgetError:
        """Evaluate all messages, even unused ones: the API server does, and they count towards the cost."""
        activation = activations.for_expressions(params, self.policy.variables, limits, has_authorizer=False)
        try:
            return evaluate_all(self.expressions.messages, activation, budget, limits)
        except OutOfBudgetError as error:
            return error

    def _annotations(
        self, activations: ReviewActivations, params: JSON, limits: EvaluationLimits
    ) -> tuple[PolicyAuditAnnotation, ...]:
        """Decide the audit annotations, which have a budget of their own."""
        if not self.expressions.annotations:
            return ()
        # The API server compiles annotations with an authorizer but evaluates them without one.
        activation = activations.for_expressions(params, self.policy.variables, limits, has_authorizer=False)
        results = evaluate_all(self.expressions.annotations, activation, Budget(self.budget), limits)
        spec = self.policy.spec
        return decide_annotations(spec.audit_annotations, results, fails_open=spec.fails_open)


_Binding: TypeAlias = Binding[ValidatingAdmissionPolicyBindingSpec]


class _NumberedPolicy(msgspec.Struct, frozen=True):
    """What has one number: a policy with the bindings by which it is evaluated."""

    evaluator: ValidatingPolicyEvaluator
    bindings: tuple[_Binding, ...]
    number: int
    is_first: bool
    """Whether it has the policy's first number."""

    @property
    def policy(self) -> Policy[ValidatingAdmissionPolicySpec]:
        """The policy."""
        return self.evaluator.policy

    def matched(self, key: RequestKey, resources: ApiResources) -> MatchedResource | None:
        """The resource that the policy sees in every such request, if nothing else has to be looked up for it."""
        policy = self.policy
        if policy.spec.param_kind is not None or policy.spec.audit_annotations:
            return None
        (binding,) = self.bindings
        if binding.exemptions or binding.rollout is not None:
            return None
        if binding.matcher is not None and binding.matcher.match_all(key, resources) is None:
            return None
        return policy.matcher.match_all(key, resources)


_NO_PARAMS = (None,)


class _Candidate(NamedTuple):
    """A policy that a kind of request may match."""

    numbered: _NumberedPolicy
    matched: MatchedResource | None
    """The resource that it sees in every such request; None if that has to be found out for each."""


class ValidatingPolicies:
    """All bound ValidatingAdmissionPolicies, in the order of their evaluation."""

    def __init__(
        self,
        policies: Iterable[ConfiguredPolicy],
        bindings: Iterable[ConfiguredBinding],
        exemptions: Exemptions = NO_EXEMPTIONS,
        rollouts: Rollouts = NO_ROLLOUTS,
    ) -> None:
        """Compile policies. Unbound policies and bindings without a policy have no effect.

        Raises:
            CompilationError: an expression does not compile; loading reports that before.
        """
        numbered: list[_NumberedPolicy] = []
        for policy, parts in divide_policies(policies, bindings):
            evaluator, first = _compile(policy, rollouts), len(numbered)
            numbered += [
                _NumberedPolicy(
                    evaluator,
                    compile_bindings(part, exemptions, rollouts),
                    first + place,
                    is_first=place == 0,
                )
                for place, part in enumerate(parts)
            ]
        self._policies = tuple(numbered)
        self._candidates = functools.lru_cache(CANDIDATE_CACHE_SIZE)(self._find_candidates)

    def __bool__(self) -> bool:
        """False if there are no bound policies."""
        return bool(self._policies)

    def decide(
        self,
        review: Review,
        limits: EvaluationLimits = UNLIMITED,
        *,
        explain: bool = False,
        span: Span | None = None,
    ) -> PoliciesDecision:
        """Evaluate all policies, or a span of them, without conversion webhooks. Gives their decisions in order.

        Args:
            review: The review; its cluster holds Namespaces and parameters, and expressions use its authorizer.
            limits: The limits of the evaluation.
            explain: Include policies that simply allow the request, and policies and bindings that do not match it.
            span: The numbers to evaluate, of those that :func:`pratique.policies.policy_spans.policy_spans` gives; None
                means all. That a policy does not match is reported with its first number.

        Raises:
            SlowEvaluationError: it exceeds the inline budget.
        """
        run = self.begin(review, explain=explain, span=span)
        return without_conversion_webhooks(lambda: run.decide(limits))

    def begin(
        self, review: Review, *, explain: bool = False, span: Span | None = None
    ) -> ValidatingPoliciesRun:
        """Begin an evaluation that you can continue where it exceeds its limits; the arguments are :meth:`decide`'s."""
        found = self._candidates(RequestKey.of(review), review.cluster.resources, explain=explain)
        if span is not None:
            found = tuple(entry for entry in found if span[0] <= entry.numbered.number < span[1])
        return ValidatingPoliciesRun(review, found, explain=explain)

    def _find_candidates(
        self, key: RequestKey, resources: ApiResources, *, explain: bool
    ) -> tuple[_Candidate, ...]:
        shared: dict[MatchedResource | None, MatchedResource | None] = {}

        def matched(numbered: _NumberedPolicy) -> MatchedResource | None:
            found = numbered.matched(key, resources)
            return shared.setdefault(found, found)

        return tuple(
            _Candidate(numbered, matched(numbered))
            for numbered in self._policies
            if not is_excluded(key.resource, is_static=numbered.policy.is_static)
            and (explain or numbered.policy.matcher.may_match(key, resources))
        )


def _compile(configured: ConfiguredPolicy, rollouts: Rollouts) -> ValidatingPolicyEvaluator:
    policy, compiler = compile_policy(configured, rollouts)
    return ValidatingPolicyEvaluator(policy, compile_expressions(policy.spec, compiler))


class ValidatingPoliciesRun:
    """The evaluation of policies for one review."""

    def __init__(self, review: Review, candidates: Sequence[_Candidate], *, explain: bool) -> None:
        """Evaluate nothing yet."""
        self._dispatcher = PolicyDispatcher(review)
        self._candidates = candidates
        self._explain = explain
        self._limits = UNLIMITED
        self._matched: MatchedResource | None = None
        self._activations: ReviewActivations | None = None
        self._evaluated = 0
        self._decisions: list[PolicyDecision] = []
        self._failures: list[JSONObject] = []
        self._annotations: dict[str, str] = {}
        self._checks: list[PolicyCheck] = []

    def decide(self, limits: EvaluationLimits) -> PoliciesDecision:
        """Evaluate the policies that have not been evaluated yet. Gives the decisions of all.

        Raises:
            SlowEvaluationError: the next policy exceeds the inline budget. Call this again with a larger one to
                continue.
            PendingConversionError: a webhook has to convert an object first. Call this again afterwards.
        """
        self._limits = limits
        try:
            for candidate in self._candidates[self._evaluated :]:
                limits.begin_invocation()
                self._evaluate(candidate)
                self._evaluated += 1
        except RefusalError as error:
            return self._decision(error.status)
        if self._failures:
            self._annotations[VALIDATION_FAILURE_ANNOTATION] = failures_annotation(self._failures)
        return self._decision()

    def _decision(self, refusal: Status | None = None) -> PoliciesDecision:
        return PoliciesDecision(tuple(self._decisions), self._annotations, refusal, tuple(self._checks))

    def _evaluate(self, candidate: _Candidate) -> None:
        """Evaluate one policy; if it is too slow, nothing is recorded."""
        numbered, matched = candidate
        if matched is not None:
            activations = self._activations if matched is self._matched else self._activations_for(matched)
            if activations is not None:
                self._invoke(numbered, numbered.bindings[0], activations, _NO_PARAMS)
                return
        decisions, failures, checks = len(self._decisions), len(self._failures), len(self._checks)
        try:
            self._dispatch(numbered)
        except (SlowEvaluationError, PendingConversionError):
            del self._decisions[decisions:], self._failures[failures:], self._checks[checks:]
            raise

    def _activations_for(self, matched: MatchedResource) -> ReviewActivations | None:
        """The activations for that resource; None if the object cannot be converted, which dispatching reports."""
        try:
            self._activations = self._dispatcher.activations_for(matched)
        except ConversionError:
            self._activations = None
        self._matched = matched
        return self._activations

    def _dispatch(self, numbered: _NumberedPolicy) -> None:
        """Match the policy and its bindings, find parameters, and evaluate the policy with each."""
        policy, annotations = numbered.policy, AuditAnnotationCollector()
        for dispatch in self._dispatcher.dispatch(
            policy, numbered.bindings, reports_policy=numbered.is_first
        ):
            match dispatch:
                case Unmatched(binding, reason, is_exempted):
                    if is_exempted and binding is not None:
                        self._annotations |= exemption_annotation(reason, policy.name, binding.name)
                    if self._explain:
                        self._decisions.append(self._builder(policy, binding).skip(reason))
                case Misconfigured(binding):
                    decision = self._builder(policy, binding).misconfigured(dispatch.text)
                    rollout = policy.rollout if binding is None else binding.rollout
                    in_shadow = rollout is not None and rollout.in_shadow(self._dispatcher.review)
                    self._decisions.append(decision.shadowed() if in_shadow else decision)
                case Invocation(binding, activations, params):
                    self._invoke(numbered, binding, activations, params, annotations)
        self._annotations |= annotations.published(policy.name)

    def _invoke(
        self,
        numbered: _NumberedPolicy,
        binding: _Binding,
        activations: ReviewActivations,
        params: Sequence[JSON],
        annotations: AuditAnnotationCollector | None = None,
    ) -> None:
        started, evaluate = time.perf_counter(), numbered.evaluator.evaluate
        results = [evaluate(activations, param, self._limits) for param in params]
        if binding.in_shadow(self._dispatcher.review):
            self._record_shadow(numbered, binding, results, started)
            return
        if not self._explain and results == [HELD] * len(results):
            return  # the usual case
        builder = PolicyDecisionBuilder(self._dispatcher.review, numbered.policy, binding, started)
        for result in results:
            builder.add(result, annotations or AuditAnnotationCollector())
        decision = builder.conclude()
        if self._explain or decision.outcome is not OutcomeStatus.SKIPPED:
            self._decisions.append(decision)
        self._failures += builder.failures
        self._checks += builder.checks

    def _record_shadow(
        self, numbered: _NumberedPolicy, binding: _Binding, results: Sequence[ValidateResult], started: float
    ) -> None:
        """Record a decision without effect, even if it simply allows the request: its share is worth knowing."""
        builder = PolicyDecisionBuilder(self._dispatcher.review, numbered.policy, binding, started)
        for result in results:
            builder.add(result, AuditAnnotationCollector())
        decision = builder.conclude()
        if self._explain or decision.outcome is not OutcomeStatus.SKIPPED:
            self._decisions.append(decision.shadowed())

    def _builder(
        self, policy: Policy[ValidatingAdmissionPolicySpec], binding: _Binding | None
    ) -> PolicyDecisionBuilder:
        return PolicyDecisionBuilder(self._dispatcher.review, policy, binding, time.perf_counter())


def validate(
    policies: ValidatingPolicies, review: Review, checks: PolicyCheckMetrics | None = None
) -> Answer | Awaitable[Answer]:
    """Evaluate validating policies for a review, and count their checks in ``checks``."""
    run = policies.begin(review, explain=review.explain, span=review.span)
    return answer_within_limits(functools.partial(_validate, run, review, checks), review)


def _validate(
    run: ValidatingPoliciesRun, review: Review, checks: PolicyCheckMetrics | None, limits: EvaluationLimits
) -> Answer:
    decided = run.decide(limits)
    if checks is not None and decided.checks:
        checks.observe(decided.checks)
    if not decided.decisions and decided.refusal is None:
        return Allow(audit_annotations=decided.audit_annotations)  # the usual case
    # Policies that allow are listed only with `explain`: a hundred of them cost as much as the whole review.
    outcomes = tuple(
        _policy_outcome(decision)
        for decision in decided.decisions
        if review.explain or decision.in_shadow or decision.outcome is not OutcomeStatus.ALLOWED
    )
    status = decided.status
    if status is None:
        return Allow(decided.warnings, decided.audit_annotations, outcomes)
    return Deny(status, "", decided.warnings, decided.audit_annotations, outcomes)


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
