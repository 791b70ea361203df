"""Compilation: policies and bindings made ready to be asked for many requests.

Sources, below ``k8s.io/apiserver/pkg/admission/plugin/policy``: ``validating/plugin.go`` ``compilePolicy`` and
``mutating/compilation.go``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Generic, TypeVar

from pratique.admission_policies.match_resources import ResourceMatcher
from pratique.cel.conditions import Condition
from pratique.cel.policy_environments import PolicyCompiler
from pratique.configurations.policies import BindingSpec, MutatingSpec, PolicySpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pratique.cel.expressions import Expression
    from pratique.configurations.policies import Configured, ValidatingSpec

P = TypeVar("P", bound=PolicySpec)
B = TypeVar("B", bound=BindingSpec)
P_co = TypeVar("P_co", bound=PolicySpec, covariant=True)
B_co = TypeVar("B_co", bound=BindingSpec, covariant=True)


@dataclasses.dataclass(frozen=True, slots=True)
class Policy(Generic[P_co]):
    """What policies of both kinds are made of."""

    name: str
    is_static: bool
    spec: P_co
    matcher: ResourceMatcher
    """The requests that it means."""
    conditions: tuple[Condition, ...]
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
class Expressions:
    """The expressions of a ValidatingAdmissionPolicy, each in the place of what it belongs to."""

    validations: tuple[Expression, ...]
    messages: tuple[Expression | None, ...]
    annotations: tuple[Expression, ...]


def compile_policy(configured: Configured[P]) -> tuple[Policy[P], PolicyCompiler]:
    """Make a policy ready, all but what it does; the compiler that is given back knows its variables.

    Raises:
        CompilationError: an expression does not compile, which loading it would have told.
    """
    spec = configured.spec
    if spec.match_constraints is None:
        raise ValueError(f"policy {configured.name} contained no match constraints, a required field")
    composes = bool(spec.variables) or isinstance(spec, MutatingSpec)
    compiler = PolicyCompiler(spec.param_kind is not None, {} if composes else None)
    variables = {one.name: compiler.add_variable(one.name, one.expression) for one in spec.variables}
    conditions = tuple(
        Condition(one.name, compiler.compile(one.expression, "bool", has_variables=False))
        for one in spec.match_conditions
    )
    matcher = ResourceMatcher.compile(spec.match_constraints)
    policy = Policy(configured.name, configured.is_static, spec, matcher, conditions, variables)
    return policy, compiler


def compile_expressions(spec: ValidatingSpec, compiler: PolicyCompiler) -> Expressions:
    """Compile what a ValidatingAdmissionPolicy validates and annotates.

    Raises:
        CompilationError: an expression does not compile.
    """
    return Expressions(
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


def compile_bindings(policy: Policy[P], bindings: Iterable[Configured[B]]) -> tuple[Binding[B], ...]:
    """Make the bindings of a policy ready; those of others are left out.

    Policies in files alone are bound by bindings in files alone, as they do not know each other in the API server.
    """
    return tuple(
        Binding(one.name, one.spec, _matcher(one.spec))
        for one in bindings
        if one.spec.policy_name == policy.name and one.is_static == policy.is_static
    )


def _matcher(spec: BindingSpec) -> ResourceMatcher | None:
    return None if spec.match_resources is None else ResourceMatcher.compile(spec.match_resources)
