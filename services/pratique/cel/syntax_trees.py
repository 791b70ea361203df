"""Syntax trees: parsed and type-checked expressions, read from the checker's protobuf encoding.

The messages are those of ``cel/expr/checked.proto`` and ``syntax.proto`` in ``github.com/google/cel-spec``. Why no
generated code reads them: ``docs/adr/0024-reading-checked-expressions.md``.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from pratique.cel.values import Uint, Value

Message: TypeAlias = dict[int, list[int | bytes]]
"""A message's fields by number, each with its values in order; strings and nested messages are bytes."""

_VARINT, _BYTES = 0, 2
_FIXED_LENGTHS = {1: 8, 5: 4}
"""The length of a value by its wire type."""


def read_message(data: bytes) -> Message:
    """Split a message into its fields. Raises ValueError if it is malformed or truncated."""
    fields: Message = {}
    position = 0
    try:
        while position < len(data):
            # Nearly all keys, numbers and lengths are below 128, one byte each: this saves a third of the time.
            key = data[position]
            position += 1
            if key & 0x80:
                key, position = _varint(data, position - 1)
            value, position = _value(data, position, key & 7)
            fields.setdefault(key >> 3, []).append(value)
    except IndexError:
        raise ValueError(_TRUNCATED) from None
    return fields


_TRUNCATED = "truncated message"


def _value(data: bytes, position: int, wire_type: int) -> tuple[int | bytes, int]:
    if wire_type in (_VARINT, _BYTES):
        number = data[position]
        position += 1
        if number & 0x80:
            number, position = _varint(data, position - 1)
        if wire_type == _VARINT:
            return number, position
        length = number
    else:
        length = _FIXED_LENGTHS.get(wire_type, 0)
        if not length:
            raise ValueError(f"unknown wire type {wire_type}")
    end = position + length
    if end > len(data):
        raise ValueError(_TRUNCATED)
    return data[position:end], end


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7


def number_at(message: Message, field: int) -> int:
    """A non-negative number; 0 if absent."""
    value = message.get(field, (0,))[-1]
    return value if isinstance(value, int) else 0


def signed(value: int) -> int:
    """A 64-bit number read as two's complement."""
    return value - (1 << 64) if value >= 1 << 63 else value


def double(value: bytes) -> float:
    """A double read from eight bytes."""
    return float(struct.unpack("<d", value)[0])


def data_at(message: Message, field: int) -> bytes:
    """The bytes of a string or message; empty if absent."""
    value = message.get(field, (b"",))[-1]
    return value if isinstance(value, bytes) else b""


def text_at(message: Message, field: int) -> str:
    """A string; empty if absent."""
    return data_at(message, field).decode()


def messages_at(message: Message, field: int) -> list[Message]:
    """The messages of a repeated field."""
    return [read_message(value) for value in message.get(field, ()) if isinstance(value, bytes)]


def numbers(message: Message, field: int) -> list[int]:
    """The numbers of a repeated field, packed or not. Raises ValueError if the packed ones are truncated."""
    found: list[int] = []
    for value in message.get(field, ()):
        if isinstance(value, int):
            found.append(value)
            continue
        position = 0
        while position < len(value):
            try:
                number, position = _varint(value, position)
            except IndexError:
                raise ValueError(_TRUNCATED) from None
            found.append(number)
    return found


class Constant(msgspec.Struct, frozen=True):
    """A literal."""

    number: int
    value: Value


class Identifier(msgspec.Struct, frozen=True):
    """A variable or type, by its full name."""

    number: int
    name: str


class Select(msgspec.Struct, frozen=True):
    """``operand.field``, or ``has(operand.field)``."""

    number: int
    operand: Node
    field: str
    test_only: bool


class CallExpr(msgspec.Struct, frozen=True):
    """A function or an operator; the receiver of a method is its first argument."""

    number: int
    function: str
    arguments: tuple[Node, ...]
    overloads: tuple[str, ...]
    """The overloads that fit the types of the arguments."""
    is_method: bool = False
    """Whether it is written ``receiver.function(…)``."""


class ListLiteral(msgspec.Struct, frozen=True):
    """``[a, ?b]``; ``optional`` holds the indexes of the elements that are optionals."""

    number: int
    elements: tuple[Node, ...]
    optional: frozenset[int]


class MapEntry(msgspec.Struct, frozen=True):
    """``key: value`` of a map literal, or ``?key: value`` with an optional."""

    key: Node
    value: Node
    optional: bool


class MapLiteral(msgspec.Struct, frozen=True):
    """``{a: b}``."""

    number: int
    entries: tuple[MapEntry, ...]


class StructField(msgspec.Struct, frozen=True):
    """``field: value`` of a struct literal, or ``?field: value`` with an optional."""

    name: str
    value: Node
    optional: bool


class StructLiteral(msgspec.Struct, frozen=True):
    """``Type{field: value}``."""

    number: int
    type_name: str
    fields: tuple[StructField, ...]


class Comprehension(msgspec.Struct, frozen=True):
    """A fold over a list or map, the expansion of macros such as ``all``, ``exists`` and ``map``."""

    number: int
    variables: tuple[str, ...]
    """One variable for the element or key; two for index and element, or key and value."""
    items: Node
    accumulator: str
    start: Node
    condition: Node
    step: Node
    result: Node


Node: TypeAlias = (
    Constant | Identifier | Select | CallExpr | ListLiteral | MapLiteral | StructLiteral | Comprehension
)


@dataclasses.dataclass(frozen=True, slots=True)
class SyntaxTree:
    """An expression, the types of its nodes, and their positions."""

    root: Node
    types: dict[int, bytes]
    """The encoded ``cel.expr.Type`` of each node, by its number."""
    _source_info: bytes = dataclasses.field(repr=False)

    def offsets(self) -> dict[int, int]:
        """Read the position of each node, by its number, in characters from the start of the source.

        Only errors need them: reading them with the tree would take a quarter of its time.
        """
        positions = messages_at(read_message(self._source_info), 4)
        return {number_at(entry, 1): number_at(entry, 2) for entry in positions}


def walk(node: Node) -> Iterator[Node]:
    """A node, and all nodes in it."""
    yield node
    for child in parts_of(node):
        yield from walk(child)


def parts_of(node: Node) -> Sequence[Node]:
    """The nodes that a node is made of."""
    match node:
        case Select(_, operand):
            return (operand,)
        case CallExpr(arguments=parts) | ListLiteral(elements=parts):
            return parts
        case StructLiteral(_, _, fields):
            return [field.value for field in fields]
        case MapLiteral(_, entries):
            return [part for entry in entries for part in (entry.key, entry.value)]
        case Comprehension():
            return (node.items, node.start, node.condition, node.step, node.result)
        case _:
            return ()


def decode_checked_expression(serialized: bytes) -> SyntaxTree:
    """Decode the output of the checker's ``Expression.serialize``: a ``google.protobuf.Any`` of a CheckedExpr.

    Raises:
        ValueError: it is malformed or truncated.
    """
    checked = read_message(data_at(read_message(serialized), 2))
    references = {number_at(entry, 1): read_message(data_at(entry, 2)) for entry in messages_at(checked, 2)}
    overloads = {
        number: tuple(text.decode() for text in reference[3] if isinstance(text, bytes))
        for number, reference in references.items()
        if 3 in reference
    }
    return SyntaxTree(
        root=_node(read_message(data_at(checked, 4)), overloads),
        types={number_at(entry, 1): data_at(entry, 2) for entry in messages_at(checked, 3)},
        _source_info=data_at(checked, 5),
    )


_Overloads: TypeAlias = "dict[int, tuple[str, ...]]"


def _node(message: Message, overloads: _Overloads) -> Node:
    for field, read in _READERS.items():
        if field in message:
            return read(number_at(message, 2), read_message(data_at(message, field)), overloads)
    raise ValueError("unknown kind of expression")


def _child(message: Message, field: int, overloads: _Overloads) -> Node:
    return _node(read_message(data_at(message, field)), overloads)


def _children(message: Message, field: int, overloads: _Overloads) -> tuple[Node, ...]:
    return tuple(_node(child, overloads) for child in messages_at(message, field))


def _constant(number: int, message: Message, _: _Overloads) -> Node:
    ((field, (value,)),) = message.items()
    if isinstance(value, int):
        return Constant(number, _INTEGERS[field](value))
    return Constant(number, _TEXTS[field](value))


_INTEGERS: dict[int, Callable[[int], Value]] = {
    1: lambda _: None,
    2: bool,
    3: signed,
    4: Uint,
}
_TEXTS: dict[int, Callable[[bytes], Value]] = {5: double, 6: bytes.decode, 7: bytes}


def _identifier(number: int, message: Message, _: _Overloads) -> Node:
    return Identifier(number, text_at(message, 1))


def _select(number: int, message: Message, overloads: _Overloads) -> Node:
    operand = _child(message, 1, overloads)
    return Select(number, operand, text_at(message, 2), bool(number_at(message, 3)))


def _call(number: int, message: Message, overloads: _Overloads) -> Node:
    target = (_child(message, 1, overloads),) if 1 in message else ()
    arguments = target + _children(message, 3, overloads)
    return CallExpr(number, text_at(message, 2), arguments, overloads.get(number, ()), bool(target))


def _list(number: int, message: Message, overloads: _Overloads) -> Node:
    return ListLiteral(number, _children(message, 1, overloads), frozenset(numbers(message, 2)))


def _struct(number: int, message: Message, overloads: _Overloads) -> Node:
    if 1 in message:
        fields = tuple(
            StructField(text_at(entry, 2), _child(entry, 4, overloads), bool(number_at(entry, 5)))
            for entry in messages_at(message, 2)
        )
        return StructLiteral(number, text_at(message, 1), fields)
    entries = tuple(
        MapEntry(_child(entry, 3, overloads), _child(entry, 4, overloads), bool(number_at(entry, 5)))
        for entry in messages_at(message, 2)
    )
    return MapLiteral(number, entries)


def _comprehension(number: int, message: Message, overloads: _Overloads) -> Node:
    second = text_at(message, 8)
    return Comprehension(
        number=number,
        variables=(text_at(message, 1), second) if second else (text_at(message, 1),),
        items=_child(message, 2, overloads),
        accumulator=text_at(message, 3),
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
