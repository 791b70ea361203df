"""Policies and bindings compiled, and which of them a request may match."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeAlias, TypeVar

from pratique.admission.matching import RequestKey
from pratique.admission.reviews import Review
from pratique.cel.activation import LazyVariables
from pratique.cel.costs import Budget
from pratique.cel.errors import EvaluationError
from pratique.cel.expressions import CompiledCondition, Expression
from pratique.cel.policy_compiler import PolicyCompiler
from pratique.cel.values import Value
from pratique.cluster.api_resources import ApiResources
from pratique.configuration.admissionregistration import (
    MutatingAdmissionPolicySpec,
    PolicyBindingSpec,
    PolicyConfiguration,
    PolicySpec,
    ValidatingAdmissionPolicySpec,
)
from pratique.policies.activation import EvaluationLimits
from pratique.policies.matching import ResourceMatcher, is_excluded

EvaluationResult: TypeAlias = "Value | EvaluationError"
"""What an expression came to: a value, or why it has none."""


def evaluate_all(
    expressions: Sequence[Expression | None],
    seen: tuple[Mapping[str, Value], LazyVariables],
    budget: Budget,
    limits: EvaluationLimits,
    seconds: list[float] | None = None,
) -> list[EvaluationResult]:
    """Evaluate expressions; one that is None comes to null. ``seconds`` gets how long each took.

    Raises:
        OutOfBudgetError: the budget is used up; what has been found so far is void.
        SlowEvaluationError: it takes more than the patience that there is.
    """
    activation, composition = seen
    findings: list[EvaluationResult] = []
    for expression in expressions:
        if expression is None:
            findings.append(None)
            continue
        begun = time.perf_counter()
        try:
            found = expression.evaluate(
                activation, budget, until=limits.until, inline_budget=limits.inline_budget
            )
        except EvaluationError as error:
            found = error
        composition.settle(budget)
        findings.append(found)
        if seconds is not None:
            seconds.append(time.perf_counter() - begun)
    return findings


P = TypeVar("P", bound=PolicySpec)
B = TypeVar("B", bound=PolicyBindingSpec)
P_co = TypeVar("P_co", bound=PolicySpec, covariant=True)
B_co = TypeVar("B_co", bound=PolicyBindingSpec, covariant=True)


@dataclasses.dataclass(frozen=True, slots=True)
class Policy(Generic[P_co]):
    """What policies of both kinds are made of."""

    name: str
    is_static: bool
    spec: P_co
    matcher: ResourceMatcher
    """The requests that it means."""
    conditions: tuple[CompiledCondition, ...]
    """What must be true besides."""
    variables: Mapping[str, Expression]
    """What its other expressions ask for; of two of one name the last."""


@dataclasses.dataclass(frozen=True, slots=True)
class Binding(Generic[B_co]):
    """What binds a policy."""

    name: str
    spec: B_co
    matcher: ResourceMatcher | None
    """Which of the requests that the policy means are meant here; None for all."""


@dataclasses.dataclass(frozen=True, slots=True)
class ValidatingExpressions:
    """The expressions of a ValidatingAdmissionPolicy, each in the place of what it belongs to."""

    validations: tuple[Expression, ...]
    messages: tuple[Expression | None, ...]
    annotations: tuple[Expression, ...]


def compile_policy(configured: PolicyConfiguration[P]) -> tuple[Policy[P], PolicyCompiler]:
    """Make a policy ready, all but what it does; the compiler that is given back knows its variables.

    Raises:
        CompilationError: an expression does not compile, which loading it would have told.
    """
    spec = configured.spec
    if spec.match_constraints is None:
        raise ValueError(f"policy {configured.name} contained no match constraints, a required field")
    composes = bool(spec.variables) or isinstance(spec, MutatingAdmissionPolicySpec)
    compiler = PolicyCompiler(spec.param_kind is not None, {} if composes else None)
    variables = {one.name: compiler.add_variable(one.name, one.expression) for one in spec.variables}
    conditions = tuple(
        CompiledCondition(one.name, compiler.compile(one.expression, "bool", has_variables=False))
        for one in spec.match_conditions
    )
    matcher = ResourceMatcher.compile(spec.match_constraints)
    policy = Policy(configured.name, configured.is_static, spec, matcher, conditions, variables)
    return policy, compiler


def compile_expressions(
    spec: ValidatingAdmissionPolicySpec, compiler: PolicyCompiler
) -> ValidatingExpressions:
    """Compile what a ValidatingAdmissionPolicy validates and annotates.

    Raises:
        CompilationError: an expression does not compile.
    """
    return ValidatingExpressions(
        validations=tuple(compiler.compile(one.expression, "bool") for one in spec.validations),
        messages=tuple(
            compiler.compile(one.message_expression, "string", has_authorizer=False)
            if one.message_expression
            else None
            for one in spec.validations
        ),
        annotations=tuple(
            compiler.compile(one.value_expression, "string", "null_type") for one in spec.audit_annotations
        ),
    )


def compile_bindings(policy: Policy[P], bindings: Iterable[PolicyConfiguration[B]]) -> tuple[Binding[B], ...]:
    """Make the bindings of a policy ready; those of others are left out.

    Policies in files alone are bound by bindings in files alone, as they do not know each other in the API server.
    """
    return tuple(
        Binding(one.name, one.spec, _matcher(one.spec))
        for one in bindings
        if one.spec.policy_name == policy.name and one.is_static == policy.is_static
    )


def _matcher(spec: PolicyBindingSpec) -> ResourceMatcher | None:
    return None if spec.match_resources is None else ResourceMatcher.compile(spec.match_resources)


_REMEMBERED = 256
"""Kinds of requests whose hooks are remembered: the four operations on 64 collections and subresources."""


class PolicyHook(Protocol):
    """A policy, and whatever else belongs to it."""

    @property
    def policy(self) -> Policy[PolicySpec]:
        """The policy."""


H = TypeVar("H", bound=PolicyHook)


class PolicyHooks(Generic[H]):
    """Policies that something binds, in the order in which they are asked."""

    def __init__(self, hooks: Iterable[H]) -> None:
        """Keep them in their order."""
        self._hooks = tuple(hooks)
        self._candidates = functools.lru_cache(_REMEMBERED)(self._find_candidates)

    def __bool__(self) -> bool:
        """False where there is nothing to ask."""
        return bool(self._hooks)

    def of(self, review: Review, *, explain: bool) -> Sequence[H]:
        """Those to be asked about a review; where all is to be told, those that do not mean it, too."""
        if explain:
            return [hook for hook in self._hooks if not _excludes(hook, RequestKey.of(review))]
        return self._candidates(RequestKey.of(review), review.cluster.resources)

    def _find_candidates(self, asked: RequestKey, resources: ApiResources) -> tuple[H, ...]:
        return tuple(
            hook
            for hook in self._hooks
            if not _excludes(hook, asked) and hook.policy.matcher.may_match(asked, resources)
        )


def _excludes(hook: PolicyHook, asked: RequestKey) -> bool:
    return is_excluded(asked.resource, is_static=hook.policy.is_static)
