"""CEL's values, as Python has them.

JSON is used as it is: None, bool, int, float, str, list and dict are CEL's null, bool, int, double, string, list and
map. What Python lacks stands here; Kubernetes' own types stand with their libraries and say their name as ``cel_type``.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

Value: TypeAlias = Any
"""A CEL value; see the module."""

MINIMUM_INT, MAXIMUM_INT = -(2**63), 2**63 - 1
MAXIMUM_UINT = 2**64 - 1

NANOSECONDS = 1_000_000_000
"""In a second."""
MINIMUM_SECONDS, MAXIMUM_SECONDS = -62_135_596_800, 253_402_300_799
"""0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z: what a timestamp can be."""


class Uint(int):
    """An unsigned 64-bit integer."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time in nanoseconds."""

    nanoseconds: int


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A moment, in nanoseconds since 1970-01-01T00:00:00Z."""

    nanoseconds: int


@dataclasses.dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be missing. ``value`` says nothing where ``present`` is false."""

    present: bool
    value: Value = None


NOTHING = Optional(present=False)
"""The optional without a value."""


def something(value: Value) -> Optional:
    """The optional that has a value."""
    return Optional(present=True, value=value)


@dataclasses.dataclass(frozen=True, slots=True)
class TypeName:
    """A type as a value: what ``type(x)`` gives."""

    name: str


_NAMES = {
    type(None): "null_type",
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    Optional: "optional_type",
    TypeName: "type",
}


def type_name(value: Value) -> str:
    """The name of a value's type, as ``type(x)`` and error messages have it."""
    return _NAMES.get(type(value)) or str(getattr(value, "cel_type", "dyn"))
