"""Constants: expressions that come out the same whatever the request."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.cel.expressions import Expression
    from pratique.cel.policy_environments import PolicyCompiler
    from pratique.configurations.policies import Configured, PolicySpec
    from pratique.field_errors import Step
    from pratique.practices.definitions import Owner
    from pratique.practices.subjects import Subject


def always_false(subject: Subject) -> Iterator[tuple[Owner, tuple[Step, ...]]]:
    """Where a match condition is false of every request."""
    return ((owner, path) for owner, path, value in constant_conditions(subject) if value is False)


def constant_conditions(subject: Subject) -> Iterator[tuple[Owner, tuple[Step, ...], bool]]:
    """Where match conditions are constant, and what they are then."""
    for hook in subject.hooks:
        for index, condition in enumerate(hook.webhook.match_conditions):
            from pratique.cel.environments import MATCH_CONDITIONS  # noqa: PLC0415 - brings CEL
            from pratique.cel.expressions import compile_expression  # noqa: PLC0415 - likewise

            value = _constant(compile_expression(condition.expression.strip(), MATCH_CONDITIONS, "bool"))
            if value is not None:
                yield hook.owner, ("webhooks", hook.index, "matchConditions", index, "expression"), value
    for policy in subject.policies:
        for index, condition in enumerate(policy.spec.match_conditions):
            expression = _compiler(policy.spec).compile(condition.expression, "bool", has_variables=False)
            value = _constant(expression)
            if value is not None:
                yield policy, ("spec", "matchConditions", index, "expression"), value


def always_true(policy: Configured[PolicySpec]) -> Iterator[int]:
    """Which validations of a policy are true of every request.

    One that is always false says that all that is matched is refused, which may well be meant.
    """
    from pratique.configurations.policies import ValidatingSpec  # noqa: PLC0415 - msgspec, needed here alone

    if not isinstance(policy.spec, ValidatingSpec):
        return
    compiler = _compiler(policy.spec)
    for index, validation in enumerate(policy.spec.validations):
        if _constant(compiler.compile(validation.expression, "bool")):
            yield index


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
