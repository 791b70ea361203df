"""Protobuf's wire format, as far as it tells how much an encoded message holds before memory is taken for it.

A field takes two bytes on the wire and a hundred in memory, so that a message within the limit of its length may still
take gigabytes, and seconds in which nothing else is answered.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from pratique.apimachinery.errors import BadAnswerError

MAX_FIELDS = 100_000
"""The most fields of an answer, with those of the messages in it: an outcome of a policy has ten."""
FEW_FIELDS_BYTES = 64 * 1024
"""What is no longer has few fields, and need not be looked at: nearly all answers."""
_VARINT, _FIXED64, _DELIMITED, _GROUP_START, _GROUP_END, _FIXED32 = range(6)
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_GROUPS = frozenset({_GROUP_START, _GROUP_END})
"""What is in a group is counted as if it were outside."""
_TYPE_BITS = 3
_MOST_VARINT_BITS = 70


def check_fields(raw: bytes, kind: type[Message]) -> None:
    """Check that an encoded answer of a type does not hold too many fields. Nothing is built of it.

    Raises:
        BadAnswerError: it holds more than :data:`MAX_FIELDS`.
        DecodeError: it is not a message.
    """
    descriptor: Any = kind.DESCRIPTOR  # of another type in each implementation of protobuf
    count, waiting = 0, [(0, len(raw), descriptor)]
    while waiting:
        position, end, message = waiting.pop()
        nested = _messages_of(message)
        while position < end:
            count += 1
            if count > MAX_FIELDS:
                raise BadAnswerError(
                    f"received invalid webhook response: it holds more than {MAX_FIELDS} fields"
                )
            tag, position = _varint(raw, position)
            number, wire_type = tag >> _TYPE_BITS, tag & ((1 << _TYPE_BITS) - 1)
            if wire_type == _DELIMITED:
                size, position = _varint(raw, position)
                inner = nested.get(number)
                if inner is not None:
                    waiting.append((position, min(position + size, end), inner))
                position += size
            elif wire_type == _VARINT:
                _, position = _varint(raw, position)
            elif wire_type not in _GROUPS:
                position += _fixed_size(wire_type)
        if position > end:
            raise DecodeError("a field is longer than its message")


@functools.cache
def _messages_of(kind: Descriptor) -> Mapping[int, Descriptor]:
    """The types of the fields that are messages themselves, by number."""
    return {field.number: field.message_type for field in kind.fields if field.message_type is not None}


def _varint(raw: bytes, position: int) -> tuple[int, int]:
    """Read a number; return it, and where it ends."""
    value = 0
    for shift in range(0, _MOST_VARINT_BITS, 7):
        if position >= len(raw):
            break
        byte = raw[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise DecodeError("a number does not end")


def _fixed_size(wire_type: int) -> int:
    size = _FIXED_BYTES.get(wire_type)
    if size is None:
        raise DecodeError("a field has a type that there is not")
    return size
