"""Activation: one evaluation's variables and cost, and the variables of a policy."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from pratique.apimachinery.statuses import go_quoted
from pratique.cel.compilation_errors import parse_type
from pratique.cel.costs import Budget, InlineBudget
from pratique.cel.errors import CostLimitError, EvaluationError, InterruptedEvaluationError
from pratique.cel.values import OPTIONAL_NONE, Optional, Value, optional_of

if TYPE_CHECKING:
    from pratique.cel.expressions import Expression

UNCOUNTED_WORK_LIMIT = 4_000_000
"""Elements copied, characters joined and nodes compared that cost nothing by cel-go's count: a second's worth."""
_WORK_BETWEEN_CLOCK_CHECKS = 1_000
"""Toil after which it is time to look at the clock."""

_STEPS_BETWEEN_YIELDS = 256
"""Iterations between looks at the clock: about 0.2 ms, so that no other thread waits longer for the interpreter."""


class Frame:
    """The state of one evaluation of one expression."""

    __slots__ = (
        "_steps",
        "_until",
        "cost",
        "limit",
        "slots",
        "uncounted_work",
        "uncounted_work_limit",
        "variables",
    )

    def __init__(
        self,
        variables: Mapping[str, Value],
        slots: int,
        limit: int,
        uncounted_work_limit: int = UNCOUNTED_WORK_LIMIT,
        until: float | None = None,
    ) -> None:
        """Begin an evaluation.

        Args:
            variables: The values of the environment's variables.
            slots: How many variables its comprehensions have.
            limit: What it may cost.
            toil_limit: What it may toil.
            until: When it is cut off, by ``time.monotonic``; None means never.
        """
        self.variables = variables
        self.slots: list[Value] = [None] * slots
        self.cost = 0
        self.limit = limit
        self.uncounted_work = 0
        self.uncounted_work_limit = uncounted_work_limit
        self._until = until
        self._steps = 0

    def spend(self, cost: int) -> None:
        """Charge for a step. Raises CostLimitError where that is too much."""
        self.cost += cost
        if self.cost > self.limit:
            raise CostLimitError

    def work(self, amount: int) -> None:
        """Note work that costs nothing by cel-go's count. Raises CostLimitError where it is too much."""
        self.uncounted_work += amount
        if self.uncounted_work > self.uncounted_work_limit:
            raise CostLimitError
        if amount > _WORK_BETWEEN_CLOCK_CHECKS:
            self.yield_to_threads()

    def step(self, cost: int) -> None:
        """Charge for another iteration of a comprehension; now and then, let other threads run."""
        self.cost += cost
        if self.cost > self.limit:
            raise CostLimitError
        self._steps += 1
        if self._steps % _STEPS_BETWEEN_YIELDS == 0:
            self.yield_to_threads()

    def yield_to_threads(self) -> None:
        """Let other threads run. Raises InterruptedEvaluationError where the time is up."""
        time.sleep(0)
        if self._until is not None and time.monotonic() > self._until:
            raise InterruptedEvaluationError


VARIABLES = "variables"
"""The variable through which expressions ask for them."""
VARIABLES_TYPE = "kubernetes.variables"
"""Its type: one with a field for each of them."""

_SIMPLE_TYPES = frozenset({"any", "bool", "bytes", "double", "int", "null_type", "string", "uint"})
_TYPE_ALIASES = {"duration": "duration", "timestamp": "timestamp", "google.protobuf.Duration": "duration"}
_TYPE_ALIASES |= {"google.protobuf.Timestamp": "timestamp"}
_WORD = re.compile(r"\w+")
_PRESENCE = re.compile(r"\bhas\s*\(([^()]*)\)")
_COMMENT = re.compile(r"//[^\n]*")
_TESTED = re.compile(rf"\s*{VARIABLES}\s*\.[\s`]*(\w+)[\s`]*")


def declared_type(result_type: str) -> str:
    """The type that a variable is declared with, whose expression has that type.

    Lists, maps and the simple types stay what they are, all others become ``dyn``: ``convertCelTypeToDeclType``.
    """
    name, parameters = parse_type(result_type)
    if name in _SIMPLE_TYPES and not parameters:
        return name
    if name in _TYPE_ALIASES and not parameters:
        return _TYPE_ALIASES[name]
    if (name, len(parameters)) in (("list", 1), ("map", 2)):
        return f"{name}<{','.join(map(declared_type, parameters))}>"
    return "dyn"


class DeclaredVariable(NamedTuple):
    """A variable as the type checker is told of it."""

    name: str
    kind: str
    """Its type, as :mod:`pratique.cel.declarations` writes it."""
    is_tested: bool = False
    """Whether the expression asks ``has(variables.name)``."""


def mentioned_variables(source: str, variables: Iterable[tuple[str, str]]) -> tuple[DeclaredVariable, ...]:
    """Of variables, those that an expression may be asking for.

    Fewer variables are fewer type checkers: most expressions ask for none, and share one.
    """
    words = frozenset(_WORD.findall(source))
    tested = frozenset(
        match[1]
        for presence in _PRESENCE.findall(source)
        if (match := _TESTED.fullmatch(_COMMENT.sub("", presence)))
    )
    return tuple(
        sorted(DeclaredVariable(name, kind, name in tested) for name, kind in variables if name in words)
    )


class LazyVariables:
    """The variables of a policy as one evaluation of its expressions sees them: the value of ``variables``.

    A variable is evaluated at most once; what it cost, or why it has no value, is remembered with it.
    """

    __slots__ = ("_activation", "_cost", "_expressions", "_inline_budget", "_until", "_values")

    cel_type: ClassVar[str] = VARIABLES_TYPE

    def __init__(
        self,
        expressions: Mapping[str, Expression],
        activation: Mapping[str, Value],
        *,
        until: float | None = None,
        inline_budget: InlineBudget | None = None,
    ) -> None:
        """Know ``expressions`` by name, which see what is in ``activation``; evaluate none of them."""
        self._expressions = expressions
        self._activation = activation
        self._until = until
        self._inline_budget = inline_budget
        self._values: dict[str, Value | EvaluationError] = {}
        self._cost = 0

    def settle(self, budget: Budget) -> None:
        """Charge what variables have cost since last time. Raises OutOfBudgetError where that is too much."""
        cost, self._cost = self._cost, 0
        budget.charge(cost)

    def find(self, name: Value) -> Optional:
        """Give a variable. Raises EvaluationError where it has no value; nothing where there is none such."""
        if type(name) is not str:
            raise EvaluationError("no such overload")
        name = _unescape_name(name)
        if name not in self._expressions:
            return OPTIONAL_NONE
        if name not in self._values:
            # A variable that asks for itself, which a second one of its name can, would never end.
            self._values[name] = EvaluationError(f"composited variable {go_quoted(name)} asks for itself")
            self._values[name] = self._evaluate(name)
        value = self._values[name]
        if isinstance(value, EvaluationError):
            raise EvaluationError(str(value))
        return optional_of(value)

    def _evaluate(self, name: str) -> Value | EvaluationError:
        value, cost = self._expressions[name].measure(
            self._activation, until=self._until, inline_budget=self._inline_budget
        )
        self._cost += cost
        if isinstance(value, EvaluationError):
            return EvaluationError(f"composited variable {go_quoted(name)} fails to evaluate: {value}")
        return value


_ESCAPED = re.compile(r"__([^_]+)__")
_ESCAPES = {"underscores": "__", "dot": ".", "dash": "-", "slash": "/"}


@functools.lru_cache(1024)
def _unescape_name(name: str) -> str:
    """Undo the escapes of ``k8s.io/apiserver/pkg/cel/escaping.go``; a wrong one makes a name that nothing has."""
    return _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], f" {match[1]}"), name)
