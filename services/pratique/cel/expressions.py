"""Expressions, compiled once and evaluated often, and the match conditions that consist of them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from pratique.cel import costs
from pratique.cel.activation import UNCOUNTED_WORK_LIMIT, Frame
from pratique.cel.ast_validators import validate_ast
from pratique.cel.code_generation import FAILURES, Code, write_code
from pratique.cel.compilation_errors import format_error, render_type, to_api_server_message, to_type_name
from pratique.cel.costs import Budget, InlineBudget
from pratique.cel.declarations import (
    EXACT_FLATTEN,
    OBJECT,
    PATCH,
    PATCH_FIELDS,
    StructNames,
    scan_struct_names,
    with_exact_flatten,
    with_two_variable_macros,
)
from pratique.cel.environments import Environment, functions_by_name, known_functions, type_checker
from pratique.cel.errors import (
    CompilationError,
    CostLimitError,
    EvaluationCancelledError,
    EvaluationError,
    SlowEvaluationError,
)
from pratique.cel.mismatched_calls import reword_calls_of_nothing, substitute
from pratique.cel.planner import Program, plan
from pratique.cel.syntax_trees import SyntaxTree, decode_checked_expression
from pratique.cel.type_descriptors import StructTypes
from pratique.cel.values import Value

if TYPE_CHECKING:
    from cel_expr_python import cel  # type: ignore[import-untyped] # its stubs lack py.typed

_COMPILED_CACHE_SIZE = 1024
"""How many compiled expressions are cached, so that a reload compiles only the changed ones."""
_NO_NAMES = StructNames("", {}, frozenset())
_TOO_DEEP = "expression nests values too deeply"
"""The error for data nested beyond Python's recursion limit, about a thousand levels; cel-go has no such limit."""


class Expression(msgspec.Struct, frozen=True):
    """A compiled expression."""

    source: str
    """The expression as written."""
    result_type: str
    """The type of its value, in cel-go's notation."""
    plan: Program
    """Evaluates it with all errors: the reference for its code."""
    code: Code | None = None
    """Does the same as the plan as long as nothing fails; None if there is only the plan."""

    def without_code(self) -> Expression:
        """The same expression, evaluated by its plan alone."""
        return msgspec.structs.replace(self, code=None)

    def evaluate(
        self,
        variables: Mapping[str, Value],
        budget: Budget,
        *,
        until: float | None = None,
        inline_budget: InlineBudget | None = None,
    ) -> Value:
        """Evaluate the expression.

        Args:
            variables: The values of the environment's variables; using a missing one is an error.
            budget: The cost budget that it shares with other expressions.
            until: The deadline, by ``time.monotonic``.
            inline_budget: What it may spend where it blocks others; None means all that one expression may cost.

        Raises:
            EvaluationError: the evaluation failed. The text is the API server's:
                ``expression '…' resulted in error: no such key: foo``.
            OutOfBudgetError: the budget is used up.
            SlowEvaluationError: it exceeds ``inline_budget``; nothing has been charged to the budget.
        """
        value, cost = self._evaluate(variables, until, inline_budget)
        budget.charge(cost)
        if isinstance(value, EvaluationError):
            raise EvaluationError(f"expression '{self.source}' resulted in error: {value}")
        return value

    def evaluate_with_cost(
        self,
        variables: Mapping[str, Value],
        *,
        until: float | None = None,
        inline_budget: InlineBudget | None = None,
    ) -> tuple[Value | EvaluationError, int]:
        """Evaluate without a shared budget. Gives the value, or the error in cel-go's words, and the cost.

        Raises:
            SlowEvaluationError: it exceeds ``inline_budget``.
        """
        return self._evaluate(variables, until, inline_budget)

    def _evaluate(
        self, variables: Mapping[str, Value], until: float | None, inline_budget: InlineBudget | None
    ) -> tuple[Value | EvaluationError, int]:
        limit, work_limit = costs.PER_CALL_LIMIT, UNCOUNTED_WORK_LIMIT
        if inline_budget is not None:
            limit, work_limit = min(inline_budget.cost, limit), inline_budget.uncounted_work
        if self.code is not None and limit >= 0 and work_limit >= 0:
            try:
                value, cost, work = self.code(variables, limit, work_limit, until)
            except SlowEvaluationError:
                raise  # from a variable that the expression uses
            except FAILURES:
                pass  # the plan finds out what it is
            else:
                if cost <= limit and work <= work_limit:
                    if inline_budget is not None:
                        inline_budget.spend(cost, work)
                    return value, cost
                if cost <= costs.PER_CALL_LIMIT and work <= UNCOUNTED_WORK_LIMIT:
                    raise SlowEvaluationError
        return self._follow_plan(Frame(variables, self.plan.slots, limit, work_limit, until), inline_budget)

    def _follow_plan(
        self, frame: Frame, inline_budget: InlineBudget | None
    ) -> tuple[Value | EvaluationError, int]:
        try:
            value = self.plan.step(frame)
        except SlowEvaluationError:
            raise
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
        environment: The variables and functions that it may use.
        result_types: The types that its value may have, in cel-go's notation; none means any.

    Raises:
        CompilationError: the expression does not compile. The text is the API server's.
    """
    names = scan_struct_names(source) if environment.has_patches else _NO_NAMES
    tree, functions = _parse_and_check(source, environment, names), functions_by_name(environment)
    issues = validate_ast(tree, functions)
    if issues:
        offsets = tree.offsets()
        lines = [
            format_error(source, offsets.get(issue.number, 0), names.restore(issue.message))
            for issue in issues
        ]
        raise CompilationError("compilation failed: " + "\n".join(lines))
    result_type = names.restore(to_type_name(render_type(tree.types.get(tree.root.number, b""))))
    if result_types and result_type not in result_types:
        raise CompilationError(_wrong_type(result_types, result_type))
    try:
        planned = plan(tree, functions, {**names.types, PATCH: PATCH})
    except RecursionError:
        raise CompilationError("compilation failed: expression is nested too deeply") from None
    code = write_code(planned)
    return Expression(source, result_type, planned.without_operations(), code.function() if code else None)


def checked_tree(source: str, environment: Environment) -> SyntaxTree:
    """Parse and check an expression without planning its evaluation.

    Raises:
        CompilationError: the expression does not compile.
    """
    names = scan_struct_names(source) if environment.has_patches else _NO_NAMES
    return _parse_and_check(source, environment, names)


def _parse_and_check(source: str, environment: Environment, names: StructNames) -> SyntaxTree:
    if environment.has_patches:
        environment = msgspec.structs.replace(environment, structs=_structs(names))
    written = with_two_variable_macros(names.source or source)
    sorts = "sortBy" in written
    try:
        if sorts and "flatten" in written:
            _check_exactly(written, environment)
        checked = _compile(type_checker(environment, sorts=sorts), written)
        return decode_checked_expression(checked)
    except RuntimeError as error:
        text = _with_mismatched_calls(written, environment, str(error))
        text = names.restore(text).replace("existsOne (", "exists_one(")
        raise CompilationError(f"compilation failed: {to_api_server_message(text, source)}") from None


def _with_mismatched_calls(source: str, environment: Environment, errors: str) -> str:
    """The errors of an expression, with those of calls of functions that take other arguments as cel-go has them."""
    functions = known_functions(environment)
    calls = substitute(source, errors, functions)
    if calls is not None:
        try:
            _check_exactly(calls.source, environment, frozenset(calls.names))
        except RuntimeError as error:
            errors = calls.restore(str(error)) or errors
    return reword_calls_of_nothing(errors, source, functions)


def _check_exactly(source: str, environment: Environment, substitutes: frozenset[str] = frozenset()) -> None:
    """Check the types of an expression, those of ``flatten`` beside ``sortBy`` included.

    Args:
        source: The expression.
        environment: The environment.
        substitutes: Names in it that stand for functions.

    Raises:
        RuntimeError: it does not compile.
    """
    sorts = "sortBy" in source
    if sorts and "flatten" in source:
        source, substitutes = with_exact_flatten(source), substitutes | {EXACT_FLATTEN}
    try:
        _compile(type_checker(environment, sorts=sorts, substitutes=substitutes), source)
    except RuntimeError as error:
        raise RuntimeError(str(error).replace(EXACT_FLATTEN, "flatten")) from None


def _compile(checker: cel.Env, source: str) -> bytes:
    """Compile an expression with whole errors: the checker's end at a NUL, so another character stands for it."""
    try:
        return bytes(checker.compile(source).serialize())
    except RuntimeError:
        mark = next((control for control in _CONTROLS if control not in source), "")
        if "\0" not in source or not mark:
            raise
        try:
            checker.compile(source.replace("\0", mark))
        except RuntimeError as error:
            raise RuntimeError(str(error).replace(mark, "\0")) from None
        raise


_CONTROLS = "\x01\x02\x03\x04"
"""Characters that no token has outside of texts, like NUL."""


def _structs(names: StructNames) -> StructTypes:
    """The struct types that an expression constructs: objects, which may have any field, and patches."""
    any_field = tuple((field, "dyn") for field in sorted(names.fields))
    objects = tuple((name, any_field) for name in sorted({OBJECT, *names.types}))
    return (*objects, (PATCH, tuple(PATCH_FIELDS.items())))


def _wrong_type(expected: tuple[str, ...], found: str) -> str:
    if len(expected) == 1:
        return f"must evaluate to {expected[0]} but got {found}"
    return f"must evaluate to one of [{' '.join(expected)}] but got {found}"


ConditionResult: TypeAlias = "tuple[str, bool | EvaluationError]"
"""A condition's name and its value, or the error of its evaluation."""


class CompiledCondition(msgspec.Struct, frozen=True):
    """A compiled match condition."""

    name: str
    expression: Expression


def evaluate_conditions(
    conditions: Sequence[CompiledCondition],
    variables: Mapping[str, Value],
    until: float | None = None,
    inline_budget: InlineBudget | None = None,
) -> list[ConditionResult]:
    """Evaluate all conditions, even those after a false one: the API server does, and they count towards the cost.

    Args:
        conditions: The conditions.
        variables: The variables that they see.
        until: The deadline, by ``time.monotonic``.
        inline_budget: What they may spend where they block others; None means all that they may cost.

    Raises:
        OutOfBudgetError: together they exceed the budget of match conditions.
        SlowEvaluationError: they exceed ``inline_budget``.
    """
    budget = Budget(costs.RUNTIME_COST_BUDGET_MATCH_CONDITIONS)
    results: list[ConditionResult] = []
    for condition in conditions:
        try:
            value = condition.expression.evaluate(variables, budget, until=until, inline_budget=inline_budget)
            results.append((condition.name, value is True))
        except EvaluationError as error:
            results.append((condition.name, error))
    return results


def first_false_condition(results: Sequence[ConditionResult]) -> str | None:
    """The name of the first false condition; None if none is false. A false condition outweighs all errors."""
    return next((name for name, result in results if result is False), None)


def condition_errors(results: Sequence[ConditionResult]) -> list[str]:
    """The errors of the conditions whose evaluation failed."""
    return [str(result) for _, result in results if isinstance(result, EvaluationError)]
