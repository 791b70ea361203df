"""Wires: the protocol buffer encoding, as far as reading a type-checked expression needs it.

The messages of ``cel.expr`` come in no Python package, and seven of them are all that is wanted.
Source: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

Message: TypeAlias = dict[int, list[int | bytes]]
"""A message's fields by number, each with its values in order; texts and messages inside are bytes."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def read(data: bytes) -> Message:
    """Split a message into its fields. Raises ValueError where it is cut short."""
    fields: Message = {}
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        value, position = _value(data, position, key & 7)
        fields.setdefault(key >> 3, []).append(value)
    return fields


def _value(data: bytes, position: int, wire_type: int) -> tuple[int | bytes, int]:
    if wire_type == _VARINT:
        return _varint(data, position)
    if wire_type == _FIXED64:
        return data[position : position + 8], position + 8
    if wire_type == _FIXED32:
        return data[position : position + 4], position + 4
    if wire_type != _BYTES:
        raise ValueError(f"unknown wire type {wire_type}")
    length, start = _varint(data, position)
    if start + length > len(data):
        raise ValueError("message cut short")
    return data[start : start + length], start + length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if position >= len(data):
            raise ValueError("message cut short")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7


def number(message: Message, field: int) -> int:
    """A non-negative number; 0 where absent."""
    value = message.get(field, (0,))[-1]
    return value if isinstance(value, int) else 0


def signed(value: int) -> int:
    """A 64-bit number as two's complement says it."""
    return value - (1 << 64) if value >= 1 << 63 else value


def double(value: bytes) -> float:
    """A double of eight bytes."""
    return float(struct.unpack("<d", value)[0])


def data(message: Message, field: int) -> bytes:
    """A text's or message's bytes; empty where absent."""
    value = message.get(field, (b"",))[-1]
    return value if isinstance(value, bytes) else b""


def text(message: Message, field: int) -> str:
    """A text; empty where absent."""
    return data(message, field).decode()


def messages(message: Message, field: int) -> list[Message]:
    """The messages in a repeated field."""
    return [read(value) for value in message.get(field, ()) if isinstance(value, bytes)]


def numbers(message: Message, field: int) -> list[int]:
    """The numbers of a repeated field, packed or not."""
    found: list[int] = []
    for value in message.get(field, ()):
        if isinstance(value, int):
            found.append(value)
            continue
        position = 0
        while position < len(value):
            one, position = _varint(value, position)
            found.append(one)
    return found
