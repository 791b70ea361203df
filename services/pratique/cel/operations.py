"""Operations: what the steps of a planned expression do, as data from which code is generated.

Operands are steps, or operations that have no step of their own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from pratique.cel.activation import Implementation, Interpretable
from pratique.cel.costs import CostFunction
from pratique.cel.interpretables import Fold, Qualifier
from pratique.cel.values import Value


@dataclasses.dataclass(frozen=True, slots=True)
class ReadLiteral:
    """A constant."""

    value: Value


@dataclasses.dataclass(frozen=True, slots=True)
class ReadVariable:
    """A variable of the environment."""

    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class ReadSlot:
    """A variable or the accumulator of a comprehension."""

    slot: int


@dataclasses.dataclass(frozen=True, slots=True)
class ChargeMore:
    """An operand that costs more than its own evaluation."""

    operand: Operand
    cost: int


@dataclasses.dataclass(frozen=True, slots=True)
class Qualify:
    """Selections from a value, in order."""

    operand: Operand
    qualifiers: tuple[Qualifier, ...]
    cost: int
    """The cost besides 1 for each selection."""


@dataclasses.dataclass(frozen=True, slots=True)
class HasField:
    """``has()``."""

    operand: Operand
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Equality:
    """``==`` or ``!=``."""

    left: Interpretable
    right: Interpretable
    negated: bool


@dataclasses.dataclass(frozen=True, slots=True)
class FindText:
    """``in`` with a list of constant texts."""

    value: Interpretable
    texts: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True)
class Junction:
    """``&&`` or ``||``."""

    left: Interpretable
    right: Interpretable
    deciding: bool
    """The value of an operand that decides the result: false for ``&&``."""


@dataclasses.dataclass(frozen=True, slots=True)
class AbsorbFailure:
    """``@not_strictly_false``."""

    argument: Interpretable


@dataclasses.dataclass(frozen=True, slots=True)
class Choose:
    """``condition ? then : otherwise``."""

    condition: Interpretable
    then: Interpretable
    otherwise: Interpretable


@dataclasses.dataclass(frozen=True, slots=True)
class CallFunction:
    """A call of a function that evaluates all its arguments; ``cost`` None means 1."""

    name: str
    implementation: Implementation
    arguments: Sequence[Interpretable]
    cost: CostFunction | None


@dataclasses.dataclass(frozen=True, slots=True)
class Unwrap:
    """``or`` and ``orValue``; only the latter unwraps the optional."""

    optional: Interpretable
    otherwise: Interpretable
    unwraps: bool


@dataclasses.dataclass(frozen=True, slots=True)
class MakeList:
    """A list literal without optional elements."""

    elements: Sequence[Interpretable]


@dataclasses.dataclass(frozen=True, slots=True)
class MakeMap:
    """A map literal with constant keys and without optional entries."""

    keys: tuple[Value, ...]
    values: tuple[Interpretable, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class MakeStruct:
    """A struct without optional fields."""

    type_name: str
    names: tuple[str, ...]
    values: tuple[Interpretable, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Quantify:
    """``all`` or ``exists``."""

    items: Interpretable
    slots: tuple[int, ...]
    predicate: Interpretable
    ending: bool
    """The value of the predicate that ends the loop."""


@dataclasses.dataclass(frozen=True, slots=True)
class Accumulate:
    """Any other comprehension."""

    fold: Fold


@dataclasses.dataclass(frozen=True, slots=True)
class Copy:
    """The first value of an accumulator that grows in place: a copy of an empty list or map."""

    operand: Interpretable
    kind: type


@dataclasses.dataclass(frozen=True, slots=True)
class Append:
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
