"""Expressions: compiled once, evaluated often; and the conditions that are made of them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from pratique.cel import costs
from pratique.cel.activation import UNCOUNTED_WORK_LIMIT, Frame
from pratique.cel.ast_validators import validate_ast
from pratique.cel.compilation_errors import format_error, render_type, to_api_server_message
from pratique.cel.costs import Budget, InlineBudget
from pratique.cel.declarations import OBJECT, PATCH, PATCH_FIELDS, StructNames, scan_struct_names
from pratique.cel.environments import Environment, functions_by_name, type_checker
from pratique.cel.errors import (
    CompilationError,
    CostLimitError,
    EvaluationCancelledError,
    EvaluationError,
    SlowEvaluationError,
)
from pratique.cel.planner import Program, plan
from pratique.cel.syntax_trees import SyntaxTree, decode
from pratique.cel.type_descriptors import StructTypes
from pratique.cel.values import Value

_COMPILED_CACHE_SIZE = 1024
"""Expressions that are remembered compiled: a reload compiles what has changed."""
_NO_NAMES = StructNames("", {}, frozenset())
_TOO_DEEP = "expression nests values too deeply"
"""For data nested more deeply than Python recurses, about a thousand levels; cel-go has no such limit."""


@dataclasses.dataclass(frozen=True, slots=True)
class Expression:
    """An expression ready to be evaluated."""

    source: str
    """As it was written."""
    result_type: str
    """The type of its value, as cel-go writes it."""
    _plan: Program

    def evaluate(
        self,
        variables: Mapping[str, Value],
        budget: Budget,
        *,
        until: float | None = None,
        inline_budget: InlineBudget | None = None,
    ) -> Value:
        """Evaluate it.

        Args:
            variables: The values of the environment's variables; one that is asked for and not there is an error.
            budget: What it and its like may cost together.
            until: When it is cut off, by ``time.monotonic``.
            patience: What may be spent where it runs; None means all that one expression may cost.

        Raises:
            EvaluationError: it has no value. The text is the API server's:
                ``expression '…' resulted in error: no such key: foo``.
            OutOfBudgetError: the budget is used up.
            SlowEvaluationError: it takes more than ``inline_budget``; nothing has been charged to the budget.
        """
        value, cost = self.measure(variables, until=until, inline_budget=inline_budget)
        budget.charge(cost)
        if isinstance(value, EvaluationError):
            raise EvaluationError(f"expression '{self.source}' resulted in error: {value}")
        return value

    def measure(
        self,
        variables: Mapping[str, Value],
        *,
        until: float | None = None,
        inline_budget: InlineBudget | None = None,
    ) -> tuple[Value | EvaluationError, int]:
        """Evaluate it, and tell what that cost. An error is given back as the evaluator words it.

        Raises:
            SlowEvaluationError: it takes more than ``inline_budget``.
        """
        frame = Frame(variables, self._plan.slots, costs.PER_CALL_LIMIT, UNCOUNTED_WORK_LIMIT, until)
        if inline_budget is not None:
            frame.limit, frame.uncounted_work_limit = (
                min(inline_budget.cost, frame.limit),
                inline_budget.uncounted_work,
            )
        try:
            value = self._plan.step(frame)
        except SlowEvaluationError:
            raise  # of a variable that it asked for
        except CostLimitError as error:
            if (
                frame.cost <= costs.PER_CALL_LIMIT
                and frame.uncounted_work <= UNCOUNTED_WORK_LIMIT
                and inline_budget is not None
            ):
                raise SlowEvaluationError from None
            return EvaluationError(str(error)), frame.cost
        except (EvaluationError, EvaluationCancelledError) as error:
            return EvaluationError(str(error)), frame.cost
        except RecursionError:
            return EvaluationError(_TOO_DEEP), frame.cost
        if inline_budget is not None:
            inline_budget.spend(frame.cost, frame.uncounted_work)
        return value, frame.cost


@functools.lru_cache(_COMPILED_CACHE_SIZE)
def compile_expression(source: str, environment: Environment, *result_types: str) -> Expression:
    """Compile an expression.

    Args:
        source: The expression.
        environment: What it may use.
        result_types: The types that its value may have, as cel-go writes them; none means any.

    Raises:
        CompilationError: it cannot be compiled. The text is the API server's.
    """
    names = scan_struct_names(source) if environment.has_patches else _NO_NAMES
    tree, functions = _parse_and_check(source, environment, names), functions_by_name(environment)
    findings = validate_ast(tree, functions)
    if findings:
        lines = [
            format_error(source, tree.offsets.get(one.number, 0), names.restore(one.message))
            for one in findings
        ]
        raise CompilationError("compilation failed: " + "\n".join(lines))
    result_type = names.restore(render_type(tree.types.get(tree.root.number, b"")))
    if result_types and result_type not in result_types:
        raise CompilationError(_wrong_type(result_types, result_type))
    try:
        return Expression(source, result_type, plan(tree, functions, {**names.types, PATCH: PATCH}))
    except RecursionError:
        raise CompilationError("compilation failed: expression is nested too deeply") from None


def _parse_and_check(source: str, environment: Environment, names: StructNames) -> SyntaxTree:
    if environment.has_patches:
        environment = dataclasses.replace(environment, structs=_structs(names))
    try:
        return decode(type_checker(environment).compile(names.source or source).serialize())
    except RuntimeError as error:
        text = names.restore(str(error))
        raise CompilationError(f"compilation failed: {to_api_server_message(text, source)}") from None


def _structs(names: StructNames) -> StructTypes:
    """The types that an expression makes values of: objects, which may have any field, and patches."""
    any_field = tuple((field, "dyn") for field in sorted(names.fields))
    objects = tuple((name, any_field) for name in sorted({OBJECT, *names.types}))
    return (*objects, (PATCH, tuple(PATCH_FIELDS.items())))


def _wrong_type(expected: tuple[str, ...], found: str) -> str:
    if len(expected) == 1:
        return f"must evaluate to {expected[0]} but got {found}"
    return f"must evaluate to one of [{' '.join(expected)}] but got {found}"


ConditionResult: TypeAlias = "tuple[str, bool | EvaluationError]"
"""A condition's name, and what it came to: true, false, or why it is neither."""


@dataclasses.dataclass(frozen=True, slots=True)
class CompiledCondition:
    """One condition, compiled."""

    name: str
    expression: Expression


def evaluate_conditions(
    conditions: Sequence[CompiledCondition],
    variables: Mapping[str, Value],
    until: float | None = None,
    inline_budget: InlineBudget | None = None,
) -> list[ConditionResult]:
    """Evaluate all conditions, those after a false one too: the API server does, and it tells in the cost.

    Args:
        conditions: The conditions.
        variables: What they see.
        until: When they are cut off, by ``time.monotonic``.
        patience: What may be spent where they run; None means all that they may cost.

    Raises:
        OutOfBudgetError: together they cost more than they may.
        SlowEvaluationError: they take more than ``inline_budget``.
    """
    budget = Budget(costs.RUNTIME_COST_BUDGET_MATCH_CONDITIONS)
    findings: list[ConditionResult] = []
    for condition in conditions:
        try:
            value = condition.expression.evaluate(variables, budget, until=until, inline_budget=inline_budget)
            findings.append((condition.name, value is True))
        except EvaluationError as error:
            findings.append((condition.name, error))
    return findings


def first_false_condition(findings: Sequence[ConditionResult]) -> str | None:
    """The name of the first condition that is false; None where none is. A false one outweighs all errors."""
    return next((name for name, finding in findings if finding is False), None)


def condition_errors(findings: Sequence[ConditionResult]) -> list[str]:
    """Why conditions are neither true nor false."""
    return [str(finding) for _, finding in findings if isinstance(finding, EvaluationError)]
