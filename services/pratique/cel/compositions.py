"""Compositions: the variables of a policy, each evaluated when an expression first asks for it.

Sources: ``k8s.io/apiserver/pkg/admission/plugin/cel/composition.go`` and ``k8s.io/apiserver/pkg/cel/lazy/lazy.go``.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from pratique.cel.errors import EvaluationError
from pratique.cel.types import parse_type
from pratique.cel.values import NOTHING, Optional, Value, something
from pratique.statuses import go_quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pratique.cel.budgets import Budget, Patience
    from pratique.cel.expressions import Expression

VARIABLES = "variables"
"""The variable through which expressions ask for them."""
TYPE = "kubernetes.variables"
"""Its type: one with a field for each of them."""

_KEPT = frozenset({"any", "bool", "bytes", "double", "int", "null_type", "string", "uint"})
_RENAMED = {"duration": "duration", "timestamp": "timestamp", "google.protobuf.Duration": "duration"}
_RENAMED |= {"google.protobuf.Timestamp": "timestamp"}
_WORD = re.compile(r"\w+")
_PRESENCE = re.compile(r"\bhas\s*\(([^()]*)\)")
_COMMENT = re.compile(r"//[^\n]*")
_TESTED = re.compile(rf"\s*{VARIABLES}\s*\.[\s`]*(\w+)[\s`]*")


def declared_type(result_type: str) -> str:
    """The type that a variable is declared with, whose expression has that type.

    Lists, maps and the simple types stay what they are, all others become ``dyn``: ``convertCelTypeToDeclType``.
    """
    name, parameters = parse_type(result_type)
    if name in _KEPT and not parameters:
        return name
    if name in _RENAMED and not parameters:
        return _RENAMED[name]
    if (name, len(parameters)) in (("list", 1), ("map", 2)):
        return f"{name}<{','.join(map(declared_type, parameters))}>"
    return "dyn"


class Field(NamedTuple):
    """A variable as the type checker is told of it."""

    name: str
    kind: str
    """Its type, as :mod:`pratique.cel.declarations` writes it."""
    is_tested: bool = False
    """Whether the expression asks ``has(variables.name)``."""


def mentioned(source: str, variables: Iterable[tuple[str, str]]) -> tuple[Field, ...]:
    """Of variables, those that an expression may be asking for.

    Fewer variables are fewer type checkers: most expressions ask for none, and share one.
    """
    words = frozenset(_WORD.findall(source))
    tested = frozenset(
        match[1]
        for presence in _PRESENCE.findall(source)
        if (match := _TESTED.fullmatch(_COMMENT.sub("", presence)))
    )
    return tuple(sorted(Field(name, kind, name in tested) for name, kind in variables if name in words))


class Composition:
    """The variables of a policy as one evaluation of its expressions sees them: the value of ``variables``.

    A variable is evaluated at most once; what it cost, or why it has no value, is remembered with it.
    """

    __slots__ = ("_activation", "_cost", "_expressions", "_patience", "_until", "_values")

    cel_type: ClassVar[str] = TYPE

    def __init__(
        self,
        expressions: Mapping[str, Expression],
        activation: Mapping[str, Value],
        *,
        until: float | None = None,
        patience: Patience | None = None,
    ) -> None:
        """Know ``expressions`` by name, which see what is in ``activation``; evaluate none of them."""
        self._expressions = expressions
        self._activation = activation
        self._until = until
        self._patience = patience
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
        name = _unescaped(name)
        if name not in self._expressions:
            return NOTHING
        if name not in self._values:
            # A variable that asks for itself, which a second one of its name can, would never end.
            self._values[name] = EvaluationError(f"composited variable {go_quoted(name)} asks for itself")
            self._values[name] = self._evaluate(name)
        value = self._values[name]
        if isinstance(value, EvaluationError):
            raise EvaluationError(str(value))
        return something(value)

    def _evaluate(self, name: str) -> Value | EvaluationError:
        value, cost = self._expressions[name].measure(
            self._activation, until=self._until, patience=self._patience
        )
        self._cost += cost
        if isinstance(value, EvaluationError):
            return EvaluationError(f"composited variable {go_quoted(name)} fails to evaluate: {value}")
        return value


_ESCAPED = re.compile(r"__([^_]+)__")
_ESCAPES = {"underscores": "__", "dot": ".", "dash": "-", "slash": "/"}


@functools.lru_cache(1024)
def _unescaped(name: str) -> str:
    """Undo the escapes of ``k8s.io/apiserver/pkg/cel/escaping.go``; a wrong one makes a name that nothing has."""
    return _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], f" {match[1]}"), name)
