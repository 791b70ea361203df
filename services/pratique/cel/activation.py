"""Activation: the frame of an evaluation with its variables and cost, and the ``variables`` of a policy.

Sources: ``github.com/google/cel-go/interpreter/activation.go`` and
``k8s.io/apiserver/pkg/admission/plugin/cel/composition.go``.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ClassVar, NamedTuple, Protocol, TypeAlias

from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.statuses import go_quoted
from pratique.cel.compilation_errors import parse_type
from pratique.cel.costs import Budget, InlineBudget
from pratique.cel.errors import CostLimitError, EvaluationError, InterruptedEvaluationError
from pratique.cel.values import OPTIONAL_NONE, Optional, Value, optional_of
from pratique.cluster.api_resources import built_in_resources

UNCOUNTED_WORK_LIMIT = 4_000_000
"""The most that one expression may do of what cel-go does not count: elements copied, characters joined and nodes
compared. About a second's worth."""
_WORK_BETWEEN_CLOCK_CHECKS = 1_000
"""Uncounted work in one step after which the evaluation checks the clock."""

_STEPS_BETWEEN_YIELDS = 256
"""Iterations between checks of the clock: about 0.2 ms, the longest that another thread waits for the interpreter."""


KeyedList: TypeAlias = "tuple[list[Value], tuple[str, ...]]"
"""A list that is a set, or a map by the keys that are named."""


class KeyedVariables(dict[str, Value]):
    """The variables of a rule, in whose values lists may be sets, or maps by keys of their items."""

    def __init__(self, variables: Mapping[str, Value], find: Callable[[], Iterable[KeyedList]]) -> None:
        """Take the variables, and what finds those lists, which few expressions compare."""
        super().__init__(variables)
        self._find = find
        self._known: dict[int, KeyedList] | None = None

    def list_keys(self, value: Value) -> tuple[str, ...] | None:
        """The keys of the items of a list; none of a set, and None of any other list.

        It is a matter of identity, because expressions pass lists on without copying them.
        """
        if self._known is None:
            self._known = {id(found[0]): found for found in self._find()}
        found = self._known.get(id(value))
        return None if found is None else found[1]

    def add_list(self, items: list[Value], keys: tuple[str, ...]) -> None:
        """Remember a list that was made of another one."""
        if self._known is not None:
            self._known[id(items)] = (items, keys)


class Frame:
    """The state of one evaluation of one expression."""

    __slots__ = (
        "_go_values",
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
            slots: The number of comprehension variables.
            limit: The most that it may cost.
            uncounted_work_limit: The most work that it may do outside that cost.
            until: The deadline, by ``time.monotonic``; None means none.
        """
        self.variables = variables
        self.slots: list[Value] = [None] * slots
        self.cost = 0
        self.limit = limit
        self.uncounted_work = 0
        self.uncounted_work_limit = uncounted_work_limit
        self._until = until
        self._steps = 0
        self._go_values: frozenset[int] | None = None

    def is_go_value(self, value: Value) -> bool:
        """Whether a list or map is part of an object of a built-in kind.

        An API server keeps those as values of Go, which are compared otherwise than the JSON of custom resources. It
        is a matter of identity, because expressions pass lists and maps on without copying them.
        """
        if self._go_values is None:
            self._go_values = frozenset(map(id, _go_values(self.variables)))
            self.add_work(len(self._go_values))
        return id(value) in self._go_values

    def list_keys(self, value: Value) -> tuple[str, ...] | None:
        """The keys of the items of a list; none of a set, and None of any other list."""
        variables = self.variables
        return variables.list_keys(value) if isinstance(variables, KeyedVariables) else None

    def add_list(self, items: list[Value], keys: tuple[str, ...]) -> None:
        """Remember a list that was made of a set, or of a map by keys of its items."""
        if isinstance(self.variables, KeyedVariables):
            self.variables.add_list(items, keys)

    def charge(self, cost: int) -> None:
        """Charge for a step. Raises CostLimitError if that exceeds the limit."""
        self.cost += cost
        if self.cost > self.limit:
            raise CostLimitError

    def add_work(self, amount: int) -> None:
        """Add work that cel-go does not count. Raises CostLimitError if that exceeds its limit."""
        self.uncounted_work += amount
        if self.uncounted_work > self.uncounted_work_limit:
            raise CostLimitError
        if amount > _WORK_BETWEEN_CLOCK_CHECKS:
            self.yield_to_threads()

    def charge_iteration(self, cost: int) -> None:
        """Charge for an iteration of a comprehension, and let other threads run now and then."""
        self.cost += cost
        if self.cost > self.limit:
            raise CostLimitError
        self._steps += 1
        if self._steps % _STEPS_BETWEEN_YIELDS == 0:
            self.yield_to_threads()

    def yield_to_threads(self) -> None:
        """Let other threads run. Raises InterruptedEvaluationError if the deadline has passed."""
        yield_to_threads(self._until)


AS_JSON = "@json"
"""Names, beside the variables, those that hold JSON whatever their kind. No expression can refer to it."""
_GO_VARIABLES = ("request", "namespaceObject")
"""Variables that never hold a custom resource."""
_OBJECT_VARIABLES = ("object", "oldObject", "params")


def _go_values(variables: Mapping[str, Value]) -> Iterator[Value]:
    """All lists and maps in the variables that an API server keeps as values of Go."""
    as_json = variables.get(AS_JSON, ())
    for name in (*_GO_VARIABLES, *_OBJECT_VARIABLES):
        if name in as_json:
            continue
        try:
            value = variables[name]
        except KeyError:
            continue  # not one of the environment's
        if name in _GO_VARIABLES or _is_built_in(value):
            yield from _collections(value)


def _is_built_in(value: Value) -> bool:
    api_version = value.get("apiVersion") if type(value) is dict else None
    return type(api_version) is str and api_version.rpartition("/")[0] in _built_in_groups()


@functools.cache
def _built_in_groups() -> frozenset[str]:
    return frozenset(known.kind.group for known in built_in_resources())


def _collections(value: Value) -> Iterator[Value]:
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if type(found) in (dict, list):
            yield found
            waiting.extend(found.values() if type(found) is dict else found)


def yield_to_threads(until: float | None) -> None:
    """Let other threads run. Raises InterruptedEvaluationError if it is later than ``until``."""
    time.sleep(0)  # releases the interpreter lock
    if until is not None and time.monotonic() > until:
        raise InterruptedEvaluationError


VARIABLES = "variables"
"""The CEL variable whose fields are a policy's variables."""
VARIABLES_TYPE = "kubernetes.variables"
"""The type of that variable, with a field for each of the policy's variables."""

_SIMPLE_TYPES = frozenset({"any", "bool", "bytes", "double", "int", "null_type", "string", "uint"})
_TYPE_ALIASES = {"duration": "duration", "timestamp": "timestamp", "google.protobuf.Duration": "duration"}
_TYPE_ALIASES |= {"google.protobuf.Timestamp": "timestamp"}
_WORD = pattern(r"\w+")
_PRESENCE = pattern(r"\bhas\s*\(([^()]*)\)")
_COMMENT = pattern(r"//[^\n]*")
_TESTED = pattern(rf"\s*{VARIABLES}\s*\.[\s`]*(\w+)[\s`]*")


def declared_type(result_type: str) -> str:
    """The declared type of a variable whose expression has type ``result_type``.

    Lists, maps and simple types stay; all others become ``dyn``: ``convertCelTypeToDeclType``.
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
    """A variable of a policy as declared to the type checker."""

    name: str
    kind: str
    """Its type, in the notation of :mod:`pratique.cel.declarations`."""
    is_tested: bool = False
    """Whether the expression tests it with ``has(variables.name)``."""


def mentioned_variables(source: str, variables: Mapping[str, str]) -> tuple[DeclaredVariable, ...]:
    """Select the variables that an expression may use, of all with their types.

    Fewer variables mean fewer type checkers: most expressions use none, and share one checker.
    """
    words = frozenset(_WORD.findall(source))
    tested = frozenset(
        match[1]
        for presence in _PRESENCE.findall(source)
        if (match := _TESTED.fullmatch(_COMMENT.sub("", presence)))
    )
    return tuple(
        sorted(DeclaredVariable(name, variables[name], name in tested) for name in words if name in variables)
    )


class _VariableExpression(Protocol):
    def evaluate_with_cost(
        self,
        variables: Mapping[str, Value],
        *,
        until: float | None = None,
        inline_budget: InlineBudget | None = None,
    ) -> tuple[Value | EvaluationError, int]: ...


class LazyVariables:
    """The value of ``variables``: a policy's variables, evaluated on first use.

    Each is evaluated at most once; its value or error is cached.
    """

    __slots__ = ("_activation", "_cost", "_expressions", "_inline_budget", "_until", "_values")

    cel_type: ClassVar[str] = VARIABLES_TYPE

    def __init__(
        self,
        expressions: Mapping[str, _VariableExpression],
        activation: Mapping[str, Value],
        *,
        until: float | None = None,
        inline_budget: InlineBudget | None = None,
    ) -> None:
        """Take the ``expressions`` by variable name and the ``activation`` that they see; evaluate none yet."""
        self._expressions = expressions
        self._activation = activation
        self._until = until
        self._inline_budget = inline_budget
        self._values: dict[str, Value | EvaluationError] = {}
        self._cost = 0

    def charge_to(self, budget: Budget) -> None:
        """Charge what variables have cost since the last call. Raises OutOfBudgetError if that exceeds the budget."""
        cost, self._cost = self._cost, 0
        budget.charge(cost)

    def find(self, name: Value) -> Optional:
        """Select a variable, or nothing if none has that name. Raises EvaluationError if its evaluation fails."""
        if type(name) is not str:
            raise EvaluationError("no such overload")
        name = _unescape_name(name)
        if name not in self._expressions:
            return OPTIONAL_NONE
        if name not in self._values:
            # With two variables of the same name, the second may use the first and would recurse without end.
            self._values[name] = EvaluationError(f"composited variable {go_quoted(name)} uses itself")
            try:
                self._values[name] = self._evaluate(name)
            except BaseException:
                del self._values[name]  # an evaluation that was cut short may be repeated
                raise
        value = self._values[name]
        if isinstance(value, EvaluationError):
            raise EvaluationError(str(value))
        return optional_of(value)

    def _evaluate(self, name: str) -> Value | EvaluationError:
        value, cost = self._expressions[name].evaluate_with_cost(
            self._activation, until=self._until, inline_budget=self._inline_budget
        )
        self._cost += cost
        if isinstance(value, EvaluationError):
            return EvaluationError(f"composited variable {go_quoted(name)} fails to evaluate: {value}")
        return value


_ESCAPED = pattern(r"__([^_]+)__")
_ESCAPES = {"underscores": "__", "dot": ".", "dash": "-", "slash": "/"}


@functools.lru_cache(1024)
def _unescape_name(name: str) -> str:
    """Undo the escapes of ``k8s.io/apiserver/pkg/cel/escaping.go``; a bad one becomes a name that no variable has."""
    return _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], f" {match[1]}"), name)


Interpretable: TypeAlias = Callable[[Frame], Value]
"""A planned expression: a function that evaluates it in a frame and charges the frame for it."""

Implementation: TypeAlias = Callable[..., Value]
"""Implements a function: takes the frame and the values of the arguments."""
