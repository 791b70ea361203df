"""Operations: what the steps of a planned expression do, as data from which code is generated.

Operands are steps, or operations that have no step of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from pratique.cel.activation import Implementation, Interpretable
from pratique.cel.costs import CostFunction
from pratique.cel.interpretables import Fold, Qualifier
from pratique.cel.values import Value


class ReadLiteral(msgspec.Struct, frozen=True):
    """A constant."""

    value: Value


class ReadVariable(msgspec.Struct, frozen=True):
    """A variable of the environment."""

    name: str


class ReadSlot(msgspec.Struct, frozen=True):
    """A variable or the accumulator of a comprehension."""

    slot: int


class ChargeMore(msgspec.Struct, frozen=True):
    """An operand that costs more than its own evaluation."""

    operand: Operand
    cost: int


class Qualify(msgspec.Struct, frozen=True):
    """Selections from a value, in order."""

    operand: Operand
    qualifiers: tuple[Qualifier, ...]
    cost: int
    """The cost besides 1 for each selection."""


class HasField(msgspec.Struct, frozen=True):
    """``has()``."""

    operand: Operand
    name: str


class Equality(msgspec.Struct, frozen=True):
    """``==`` or ``!=``."""

    left: Interpretable
    right: Interpretable
    negated: bool


class FindText(msgspec.Struct, frozen=True):
    """``in`` with a list of constant texts."""

    value: Interpretable
    texts: frozenset[str]


class Junction(msgspec.Struct, frozen=True):
    """``&&`` or ``||``."""

    left: Interpretable
    right: Interpretable
    deciding: bool
    """The value of an operand that decides the result: false for ``&&``."""


class AbsorbFailure(msgspec.Struct, frozen=True):
    """``@not_strictly_false``."""

    argument: Interpretable


class Choose(msgspec.Struct, frozen=True):
    """``condition ? then : otherwise``."""

    condition: Interpretable
    then: Interpretable
    otherwise: Interpretable


class CallFunction(msgspec.Struct, frozen=True):
    """A call of a function that evaluates all its arguments; ``cost`` None means 1."""

    name: str
    implementation: Implementation
    arguments: Sequence[Interpretable]
    cost: CostFunction | None


class Unwrap(msgspec.Struct, frozen=True):
    """``or`` and ``orValue``; only the latter unwraps the optional."""

    optional: Interpretable
    otherwise: Interpretable
    unwraps: bool


class MakeList(msgspec.Struct, frozen=True):
    """A list literal without optional elements."""

    elements: Sequence[Interpretable]


class MakeMap(msgspec.Struct, frozen=True):
    """A map literal with constant keys and without optional entries."""

    keys: tuple[Value, ...]
    values: tuple[Interpretable, ...]


class MakeStruct(msgspec.Struct, frozen=True):
    """A struct without optional fields."""

    type_name: str
    names: tuple[str, ...]
    values: tuple[Interpretable, ...]


class Quantify(msgspec.Struct, frozen=True):
    """``all`` or ``exists``."""

    items: Interpretable
    slots: tuple[int, ...]
    predicate: Interpretable
    ending: bool
    """The value of the predicate that ends the loop."""


class Accumulate(msgspec.Struct, frozen=True):
    """Any other comprehension."""

    fold: Fold


class Copy(msgspec.Struct, frozen=True):
    """The first value of an accumulator that grows in place: a copy of an empty list or map."""

    operand: Interpretable
    kind: type


class Append(msgspec.Struct, frozen=True):
    """``accumulator + [x]``, in place."""

    accumulator: Interpretable
    added: Interpretable


PlannedOperation: TypeAlias = (
    ReadLiteral
    | ReadVariable
    | ReadSlot
    | ChargeMore
    | Qualify
    | HasField
    | Equality
    | FindText
    | Junction
    | AbsorbFailure
    | Choose
    | CallFunction
    | Unwrap
    | MakeList
    | MakeMap
    | MakeStruct
    | Quantify
    | Accumulate
    | Copy
    | Append
)
Operand: TypeAlias = Interpretable | PlannedOperation
Operations: TypeAlias = Mapping[Interpretable, PlannedOperation]
"""Operations by step. A step without one is called as it is."""
