"""Practices about what is configured and can do nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.practices.definitions import Breach, Practice, Severity
from pratique.statuses import go_quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pratique.cel.expressions import Expression
    from pratique.cel.policy_environments import PolicyCompiler
    from pratique.configurations.policies import BindingSpec, Configured, PolicySpec
    from pratique.practices.subjects import Subject


def _families(
    subject: Subject,
) -> Iterator[tuple[Sequence[Configured[PolicySpec]], Sequence[Configured[BindingSpec]]]]:
    all_of_them = subject.configurations
    yield all_of_them.mutating_policies, all_of_them.mutating_bindings
    yield all_of_them.validating_policies, all_of_them.validating_bindings


def _unbound(subject: Subject) -> Iterator[Breach]:
    for policies, bindings in _families(subject):
        bound = {binding.spec.policy_name for binding in bindings}
        for policy in policies:
            if policy.name not in bound:
                yield Breach(policy, ("metadata", "name"), "no binding here names it: it does nothing")


UNBOUND = Practice(
    rule="policy-unbound",
    severity=Severity.WARNING,
    explanation="A policy does nothing until a binding names it.",
    fix="Write a binding whose policyName is the name of the policy.",
    check=_unbound,
)


def _without_policy(subject: Subject) -> Iterator[Breach]:
    for policies, bindings in _families(subject):
        there = {policy.name for policy in policies}
        for binding in bindings:
            wanted = binding.spec.policy_name
            if wanted not in there:
                text = f"there is no policy {go_quoted(wanted)} here: it does nothing"
                yield Breach(binding, ("spec", "policyName"), text)


WITHOUT_POLICY = Practice(
    rule="binding-without-policy",
    severity=Severity.WARNING,
    explanation="A binding does nothing until there is a policy of the name that it gives, and of its kind.",
    fix="Correct policyName, or add the policy.",
    check=_without_policy,
)


def _constants(subject: Subject) -> Iterator[Breach]:
    for hook in subject.hooks:
        for index, condition in enumerate(hook.webhook.match_conditions):
            from pratique.cel.environments import MATCH_CONDITIONS  # noqa: PLC0415 - brings CEL
            from pratique.cel.expressions import compile_expression  # noqa: PLC0415 - likewise

            value = _constant(compile_expression(condition.expression.strip(), MATCH_CONDITIONS, "bool"))
            if value is not None:
                yield hook.breach(_of_condition(value), "matchConditions", index, "expression")
    for policy in subject.policies:
        yield from _constants_of_policy(policy)


def _constants_of_policy(policy: Configured[PolicySpec]) -> Iterator[Breach]:
    from pratique.configurations.policies import ValidatingSpec  # noqa: PLC0415 - msgspec, needed here alone

    compiler = _compiler(policy.spec)
    for index, condition in enumerate(policy.spec.match_conditions):
        value = _constant(compiler.compile(condition.expression, "bool", has_variables=False))
        if value is not None:
            yield Breach(policy, ("spec", "matchConditions", index, "expression"), _of_condition(value))
    for index, validation in enumerate(
        policy.spec.validations if isinstance(policy.spec, ValidatingSpec) else ()
    ):
        # One that is always false says that all that is matched is refused, which may well be meant.
        if _constant(compiler.compile(validation.expression, "bool")):
            path = ("spec", "validations", index, "expression")
            yield Breach(policy, path, "is true of every request: it refuses nothing")


def _compiler(spec: PolicySpec) -> PolicyCompiler:
    from pratique.cel.policy_environments import PolicyCompiler  # noqa: PLC0415 - brings CEL

    compiler = PolicyCompiler(spec.param_kind is not None, None)
    for variable in spec.variables:
        compiler.add_variable(variable.name, variable.expression)
    return compiler


def _constant(expression: Expression) -> bool | None:
    """The value that an expression has whatever it is shown: the one that it has where it is shown nothing.

    Every variable is an error then, and what absorbs an error, as ``||`` and ``&&`` do, absorbs any value.
    """
    value, _ = expression.measure({})
    return value if isinstance(value, bool) else None


def _of_condition(value: bool) -> str:  # noqa: FBT001 - the value of the condition, which is all there is to tell
    return (
        "is true of every request: it narrows nothing"
        if value
        else "is false of every request: nothing matches"
    )


CONSTANTS = Practice(
    rule="cel-cannot-match",
    severity=Severity.WARNING,
    explanation="A condition or validation that comes out the same whatever the request does nothing, or too much.",
    fix="Write an expression that depends on the request, or take it out.",
    check=_constants,
)
