"""Compiled policies and bindings, the evaluation of their expressions, and which of them a request may match."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeAlias, TypeVar

import msgspec

from pratique.admission.matching import RequestKey
from pratique.admission.reviews import Review
from pratique.apimachinery import statuses
from pratique.apimachinery.json_values import JSON
from pratique.cel.activation import LazyVariables
from pratique.cel.costs import Budget
from pratique.cel.errors import EvaluationError, OutOfBudgetError
from pratique.cel.expressions import (
    CompiledCondition,
    Expression,
    condition_errors,
    evaluate_conditions,
    first_false_condition,
)
from pratique.cel.policy_compiler import PolicyCompiler
from pratique.cel.values import Value
from pratique.cluster.api_resources import ApiResources
from pratique.configuration.admissionregistration import (
    MutatingAdmissionPolicySpec,
    PolicyBindingSpec,
    PolicyConfiguration,
    PolicyKind,
    PolicySpec,
    ValidatingAdmissionPolicySpec,
)
from pratique.configuration.policy_references import PolicyReferenceKind
from pratique.policies.activation import EvaluationLimits, ReviewActivations
from pratique.policies.allow_lists import NO_ALLOW_LISTS, AllowList, AllowLists
from pratique.policies.exceptions import NO_EXEMPTIONS, Exemption, Exemptions
from pratique.policies.matching import ResourceMatcher, is_excluded
from pratique.policies.rollouts import NO_ROLLOUTS, Rollout, Rollouts

EvaluationResult: TypeAlias = "Value | EvaluationError"
"""The value of an expression, or the error of its evaluation."""


def evaluate_all(
    expressions: Sequence[Expression | None],
    activation_and_variables: tuple[Mapping[str, Value], LazyVariables | None],
    budget: Budget,
    limits: EvaluationLimits,
    seconds: list[float] | None = None,
) -> list[EvaluationResult]:
    """Evaluate expressions; None in place of one gives null. Appends the time of each to ``seconds``.

    Raises:
        OutOfBudgetError: the budget is used up; the results so far are void.
        SlowEvaluationError: they exceed the inline budget.
    """
    activation, composition = activation_and_variables
    results: list[EvaluationResult] = []
    for expression in expressions:
        if expression is None:
            results.append(None)
            continue
        started = time.perf_counter()
        try:
            result = expression.evaluate(
                activation, budget, until=limits.until, inline_budget=limits.inline_budget
            )
        except EvaluationError as error:
            result = error
        if composition is not None:
            composition.charge_to(budget)
        results.append(result)
        if seconds is not None:
            seconds.append(time.perf_counter() - started)
    return results


P = TypeVar("P", bound=PolicySpec)
B = TypeVar("B", bound=PolicyBindingSpec)
P_co = TypeVar("P_co", bound=PolicySpec, covariant=True)
B_co = TypeVar("B_co", bound=PolicyBindingSpec, covariant=True)
E_co = TypeVar("E_co", covariant=True)


class Policy(msgspec.Struct, Generic[P_co], frozen=True):
    """The compiled parts that both kinds of policies have."""

    name: str
    is_static: bool
    spec: P_co
    matcher: ResourceMatcher
    """Matches its ``matchConstraints``."""
    conditions: tuple[CompiledCondition, ...]
    """Its ``matchConditions``."""
    variables: Mapping[str, Expression] | None
    """Its variables by name, the last of several with the same name; None if ``variables`` does not exist."""
    rollout: Rollout | None = None
    """Its rollout by all of its bindings, if it is not enforced everywhere."""


class Binding(msgspec.Struct, Generic[B_co], frozen=True):
    """A compiled binding."""

    name: str
    spec: B_co
    matcher: ResourceMatcher | None
    """Matches its ``matchResources``, among the requests that the policy matches; None matches all of them."""
    exemptions: tuple[Exemption, ...] = ()
    """The exceptions from the policy by this binding."""
    rollout: Rollout | None = None
    """The rollout of the policy by this binding, if it is not enforced everywhere."""
    allow_list: AllowList | None = None
    """The fields that the policy may change by this binding, if it mutates; None means all."""

    def in_shadow(self, review: Review) -> bool:
        """Return whether what the policy decides by this binding has no effect on a request."""
        return self.rollout is not None and self.rollout.in_shadow(review)


class ValidatingExpressions(msgspec.Struct, frozen=True):
    """The compiled expressions of a ValidatingAdmissionPolicy, in the order of its validations and annotations."""

    validations: tuple[Expression, ...]
    messages: tuple[Expression | None, ...]
    annotations: tuple[Expression, ...]
    has_messages: bool
    """Whether any validation has a message expression."""
    all_true: list[EvaluationResult]
    """The results of validations that all hold."""


def compile_policy(
    configured: PolicyConfiguration[P], rollouts: Rollouts = NO_ROLLOUTS
) -> tuple[Policy[P], PolicyCompiler]:
    """Compile a policy except its validations or mutations, for which the returned compiler knows the variables.

    Raises:
        CompilationError: an expression does not compile; loading reports that before.
    """
    spec = configured.spec
    if spec.match_constraints is None:
        raise ValueError(f"policy {configured.name} contained no match constraints, a required field")
    composes = bool(spec.variables) or isinstance(spec, MutatingAdmissionPolicySpec)
    compiler = PolicyCompiler(spec.param_kind is not None, {} if composes else None)
    variables = {entry.name: compiler.add_variable(entry.name, entry.expression) for entry in spec.variables}
    conditions = tuple(
        CompiledCondition(entry.name, compiler.compile(entry.expression, "bool", has_variables=False))
        for entry in spec.match_conditions
    )
    matcher = ResourceMatcher.compile(spec.match_constraints)
    policy = Policy(
        configured.name,
        configured.is_static,
        spec,
        matcher,
        conditions,
        variables if composes else None,
        rollouts.of_policy(_REFERENCE_KINDS[configured.kind], configured.name, ""),
    )
    return policy, compiler


def compile_expressions(
    spec: ValidatingAdmissionPolicySpec, compiler: PolicyCompiler
) -> ValidatingExpressions:
    """Compile the validations and audit annotations of a ValidatingAdmissionPolicy.

    Raises:
        CompilationError: an expression does not compile.
    """
    return ValidatingExpressions(
        validations=tuple(compiler.compile(entry.expression, "bool") for entry in spec.validations),
        messages=tuple(
            compiler.compile(entry.message_expression, "string", has_authorizer=False)
            if entry.message_expression
            else None
            for entry in spec.validations
        ),
        annotations=tuple(
            compiler.compile(entry.value_expression, "string", "null_type")
            for entry in spec.audit_annotations
        ),
        has_messages=any(entry.message_expression for entry in spec.validations),
        all_true=[True] * len(spec.validations),
    )


def compile_bindings(
    bindings: Iterable[PolicyConfiguration[B]],
    exemptions: Exemptions = NO_EXEMPTIONS,
    rollouts: Rollouts = NO_ROLLOUTS,
    allow_lists: AllowLists = NO_ALLOW_LISTS,
) -> tuple[Binding[B], ...]:
    """Compile bindings, with what exempts from their policies, rolls them out and restricts them."""
    return tuple(
        Binding(
            binding.name,
            binding.spec,
            _matcher(binding.spec),
            exemptions.of_policy(_REFERENCE_KINDS[binding.kind], binding.spec.policy_name, binding.name),
            rollouts.of_policy(_REFERENCE_KINDS[binding.kind], binding.spec.policy_name, binding.name),
            allow_lists.of_policy(binding.spec.policy_name, binding.name)
            if binding.kind is PolicyKind.MUTATING_BINDING
            else None,
        )
        for binding in bindings
    )


_REFERENCE_KINDS = {
    PolicyKind.MUTATING: PolicyReferenceKind.MUTATING_POLICY,
    PolicyKind.MUTATING_BINDING: PolicyReferenceKind.MUTATING_POLICY,
    PolicyKind.VALIDATING: PolicyReferenceKind.VALIDATING_POLICY,
    PolicyKind.VALIDATING_BINDING: PolicyReferenceKind.VALIDATING_POLICY,
}
"""How policies are named, by their kind and that of their bindings."""


def _matcher(spec: PolicyBindingSpec) -> ResourceMatcher | None:
    return None if spec.match_resources is None else ResourceMatcher.compile(spec.match_resources)


class MatchResult(msgspec.Struct, frozen=True):
    """The result of a policy's match conditions; both texts are empty if all conditions are true."""

    exclusion: str = ""
    """Why the conditions exclude the request."""
    error: str = ""
    """The error of evaluating them, if the failure policy is Fail."""


_MATCHED = MatchResult()


def evaluate_match_conditions(
    policy: Policy[PolicySpec], activations: ReviewActivations, params: JSON, limits: EvaluationLimits
) -> MatchResult:
    """Evaluate the match conditions of a policy of either kind.

    Raises:
        SlowEvaluationError: they exceed the inline budget.
    """
    if not policy.conditions:
        return _MATCHED
    variables = activations.for_conditions(params)
    try:
        results = evaluate_conditions(policy.conditions, variables, limits.until, limits.inline_budget)
    except OutOfBudgetError as error:
        return _conditions_failed(str(error), policy)
    if all(result is True for _, result in results):
        return _MATCHED
    if (name := first_false_condition(results)) is not None:
        return MatchResult(exclusion=f"matchCondition {statuses.go_quoted(name)} is false")
    errors = condition_errors(results)
    return _conditions_failed(statuses.aggregate(errors), policy) if errors else _MATCHED


def _conditions_failed(text: str, policy: Policy[PolicySpec]) -> MatchResult:
    if policy.spec.fails_open:
        return MatchResult(
            exclusion=f"matchConditions cannot be evaluated and failurePolicy is Ignore: {text}"
        )
    return MatchResult(error=text)


CANDIDATE_CACHE_SIZE = 256
"""How many kinds of requests have their candidates cached: four operations on 64 resources and subresources."""


class PolicyHook(msgspec.Struct, Generic[P_co, B_co, E_co], frozen=True):
    """A policy with its bindings and its validations or mutations: ``PolicyHook`` in ``…/policy/generic``."""

    policy: Policy[P_co]
    bindings: tuple[Binding[B_co], ...]
    evaluator: E_co
    """Its compiled validations or mutations."""


H = TypeVar("H", bound=PolicyHook[PolicySpec, PolicyBindingSpec, object])


class PolicyHooks(Generic[H]):
    """The bound policies, in the order of their evaluation."""

    def __init__(self, hooks: Iterable[H]) -> None:
        """Keep the bound policies of ``hooks``, in their order."""
        self._hooks = tuple(hook for hook in hooks if hook.bindings)
        self._candidates = functools.lru_cache(CANDIDATE_CACHE_SIZE)(self._find_candidates)

    def __bool__(self) -> bool:
        """False if there are no bound policies."""
        return bool(self._hooks)

    def candidates(self, review: Review, *, explain: bool) -> Sequence[H]:
        """The policies to evaluate for a review; with ``explain``, also those that do not match it."""
        if explain:
            return [hook for hook in self._hooks if not _excludes(hook, RequestKey.of(review))]
        return self._candidates(RequestKey.of(review), review.cluster.resources)

    def _find_candidates(self, key: RequestKey, resources: ApiResources) -> tuple[H, ...]:
        return tuple(
            hook
            for hook in self._hooks
            if not _excludes(hook, key) and hook.policy.matcher.may_match(key, resources)
        )


def _excludes(hook: PolicyHook[PolicySpec, PolicyBindingSpec, object], key: RequestKey) -> bool:
    return is_excluded(key.resource, is_static=hook.policy.is_static)
