"""Syntax trees: an expression, parsed and type-checked.

They are read from the ``cel.expr.CheckedExpr`` that the checker writes, in which names are resolved and macros
expanded. Source: https://github.com/google/cel-spec/tree/master/proto/cel/expr.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeAlias

from pratique.cel import wires
from pratique.cel.values import Uint

if TYPE_CHECKING:
    from collections.abc import Callable

    from pratique.cel.values import Value
    from pratique.cel.wires import Message


@dataclasses.dataclass(frozen=True, slots=True)
class Constant:
    """A literal."""

    number: int
    value: Value


@dataclasses.dataclass(frozen=True, slots=True)
class Identifier:
    """A variable or a type, by its full name."""

    number: int
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Select:
    """``operand.field``, or ``has(operand.field)``."""

    number: int
    operand: Node
    field: str
    test_only: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """A function or an operator; the receiver of a method is its first argument."""

    number: int
    function: str
    arguments: tuple[Node, ...]
    overloads: tuple[str, ...]
    """The overloads that the types of the arguments leave."""


@dataclasses.dataclass(frozen=True, slots=True)
class ListLiteral:
    """``[a, ?b]``; ``optional`` holds the places of the elements that may be missing."""

    number: int
    elements: tuple[Node, ...]
    optional: frozenset[int]


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """``key: value`` of a map literal, ``?key: value`` where it may be missing."""

    key: Node
    value: Node
    optional: bool


@dataclasses.dataclass(frozen=True, slots=True)
class MapLiteral:
    """``{a: b}``."""

    number: int
    entries: tuple[Entry, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """``field: value`` of a struct literal, ``?field: value`` where it may be missing."""

    name: str
    value: Node
    optional: bool


@dataclasses.dataclass(frozen=True, slots=True)
class StructLiteral:
    """``Type{field: value}``."""

    number: int
    type_name: str
    fields: tuple[Field, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Comprehension:
    """What ``all``, ``exists``, ``map`` and their like are expanded to: a fold over a list or map."""

    number: int
    variables: tuple[str, ...]
    """One variable for the element or key, or two for index and element or key and value."""
    items: Node
    accumulator: str
    start: Node
    condition: Node
    step: Node
    result: Node


Node: TypeAlias = (
    Constant | Identifier | Select | Call | ListLiteral | MapLiteral | StructLiteral | Comprehension
)


@dataclasses.dataclass(frozen=True, slots=True)
class SyntaxTree:
    """An expression, its types, and where its parts stand."""

    root: Node
    types: dict[int, bytes]
    """The encoded ``cel.expr.Type`` of each node by its number."""
    offsets: dict[int, int]
    """Where each node stands in the source, in characters from its beginning."""


def decode(serialized: bytes) -> SyntaxTree:
    """Read what ``Expression.serialize`` writes: a ``google.protobuf.Any`` of a CheckedExpr."""
    checked = wires.read(wires.data(wires.read(serialized), 2))
    references = {
        wires.number(entry, 1): wires.read(wires.data(entry, 2)) for entry in wires.messages(checked, 2)
    }
    overloads = {
        number: tuple(text.decode() for text in reference.get(3, ()) if isinstance(text, bytes))
        for number, reference in references.items()
    }
    positions = wires.messages(wires.read(wires.data(checked, 5)), 4)
    return SyntaxTree(
        root=_node(wires.read(wires.data(checked, 4)), overloads),
        types={wires.number(entry, 1): wires.data(entry, 2) for entry in wires.messages(checked, 3)},
        offsets={wires.number(entry, 1): wires.number(entry, 2) for entry in positions},
    )


_Overloads: TypeAlias = "dict[int, tuple[str, ...]]"


def _node(message: Message, overloads: _Overloads) -> Node:
    for field, read in _READERS.items():
        if field in message:
            return read(wires.number(message, 2), wires.read(wires.data(message, field)), overloads)
    raise ValueError("unknown kind of expression")


def _child(message: Message, field: int, overloads: _Overloads) -> Node:
    return _node(wires.read(wires.data(message, field)), overloads)


def _children(message: Message, field: int, overloads: _Overloads) -> tuple[Node, ...]:
    return tuple(_node(child, overloads) for child in wires.messages(message, field))


def _constant(number: int, message: Message, _: _Overloads) -> Node:
    ((field, (value,)),) = message.items()
    if isinstance(value, int):
        return Constant(number, _INTEGERS[field](value))
    return Constant(number, _TEXTS[field](value))


_INTEGERS: dict[int, Callable[[int], Value]] = {
    1: lambda _: None,
    2: bool,
    3: wires.signed,
    4: Uint,
}
_TEXTS: dict[int, Callable[[bytes], Value]] = {5: wires.double, 6: bytes.decode, 7: bytes}


def _identifier(number: int, message: Message, _: _Overloads) -> Node:
    return Identifier(number, wires.text(message, 1))


def _select(number: int, message: Message, overloads: _Overloads) -> Node:
    operand = _child(message, 1, overloads)
    return Select(number, operand, wires.text(message, 2), bool(wires.number(message, 3)))


def _call(number: int, message: Message, overloads: _Overloads) -> Node:
    target = (_child(message, 1, overloads),) if 1 in message else ()
    arguments = target + _children(message, 3, overloads)
    return Call(number, wires.text(message, 2), arguments, overloads.get(number, ()))


def _list(number: int, message: Message, overloads: _Overloads) -> Node:
    return ListLiteral(number, _children(message, 1, overloads), frozenset(wires.numbers(message, 2)))


def _struct(number: int, message: Message, overloads: _Overloads) -> Node:
    if 1 in message:
        fields = tuple(
            Field(wires.text(entry, 2), _child(entry, 4, overloads), bool(wires.number(entry, 5)))
            for entry in wires.messages(message, 2)
        )
        return StructLiteral(number, wires.text(message, 1), fields)
    entries = tuple(
        Entry(_child(entry, 3, overloads), _child(entry, 4, overloads), bool(wires.number(entry, 5)))
        for entry in wires.messages(message, 2)
    )
    return MapLiteral(number, entries)


def _comprehension(number: int, message: Message, overloads: _Overloads) -> Node:
    second = wires.text(message, 8)
    return Comprehension(
        number=number,
        variables=(wires.text(message, 1), second) if second else (wires.text(message, 1),),
        items=_child(message, 2, overloads),
        accumulator=wires.text(message, 3),
        start=_child(message, 4, overloads),
        condition=_child(message, 5, overloads),
        step=_child(message, 6, overloads),
        result=_child(message, 7, overloads),
    )


_READERS: dict[int, Callable[[int, Message, _Overloads], Node]] = {
    3: _constant,
    4: _identifier,
    5: _select,
    6: _call,
    7: _list,
    8: _struct,
    9: _comprehension,
}
