"""A quick check that an object is right, and written as Go would write it, which nearly every object is.

It says yes or no, and only what it refuses is decoded field by field. A Pod of 2 KB takes some 15 microseconds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TypeAlias

from pratique.apimachinery.json_values import JSON
from pratique.cluster.go_scalars import (
    MICRO_TIME_LAYOUT,
    TIME_LAYOUT,
    is_canonical_base64,
    is_canonical_quantity,
    is_canonical_time,
)
from pratique.cluster.go_types import GoKind, GoType

Check: TypeAlias = Callable[[JSON], bool]


@functools.cache
def check_of(kind: GoType) -> Check:
    """The check of the values of a type. Null, and an unknown field, pass none."""
    match kind.kind:
        case GoKind.STRUCT:
            return _struct_check(kind)
        case GoKind.LIST if kind.items is not None:
            return _list_check(kind.items)
        case GoKind.MAP if kind.items is not None:
            return _map_check(kind.items)
        case GoKind.SCHEMA if kind.items is not None:
            return _schema_check(kind, kind.items)
        case GoKind.INTEGER:
            return _integer_check(kind.bits)
    return _CHECKS.get(kind.kind, _refuse)


def _struct_check(kind: GoType) -> Check:
    # Made with the first value, because types are recursive.
    fields: dict[str, type | Check] = {}

    def check(value: JSON) -> bool:
        if type(value) is not dict:
            return False
        if not fields:
            fields.update(_checks_of_fields(kind))  # in one step, as other threads check, too
        for name, child in value.items():
            # The type of what is text or a truth, and what checks anything else: one look for both.
            wanted = fields.get(name)
            if wanted is not type(child) and (
                wanted is None or wanted is str or wanted is bool or not wanted(child)
            ):
                return False
        return True

    return check


def _checks_of_fields(kind: GoType) -> dict[str, type | Check]:
    return {
        name: _nonzero_check(check_of(field.type))
        if field.omits_zero_scalars
        else _PLAIN.get(field.type.kind) or check_of(field.type)
        for name, field in kind.fields.items()
    }


def _nonzero_check(check: Check) -> Check:
    return lambda value: bool(value) and check(value)


def _list_check(items: GoType) -> Check:
    simple = _PLAIN.get(items.kind)
    if simple is not None:
        only = {simple}
        return lambda value: type(value) is list and (not value or set(map(type, value)) == only)
    inner = check_of(items)
    return lambda value: type(value) is list and all(map(inner, value))


def _map_check(values: GoType) -> Check:
    simple = _PLAIN.get(values.kind)
    if simple is not None:
        only = {simple}
        return lambda value: type(value) is dict and (not value or set(map(type, value.values())) == only)
    inner = check_of(values)
    return lambda value: type(value) is dict and all(map(inner, value.values()))


def _integer_check(bits: int) -> Check:
    smallest, beyond = -(1 << bits - 1), 1 << bits - 1
    return lambda value: type(value) is int and smallest <= value < beyond


def _schema_check(kind: GoType, schema: GoType) -> Check:
    inner = check_of(schema)
    if kind.name.endswith("OrBool"):
        return lambda value: type(value) is bool or inner(value)
    items = (lambda value: type(value) is str) if kind.name.endswith("OrStringArray") else inner
    return lambda value: bool(value) and (all(map(items, value)) if type(value) is list else inner(value))


def _is_int_or_string(value: JSON) -> bool:
    return type(value) is str or (type(value) is int and -(1 << 31) <= value < 1 << 31)


def _refuse(_: JSON) -> bool:
    return False


LARGEST_EXACT = 2**53
"""The integer from which on a float has not all of them."""
_PLAIN: Mapping[GoKind, type] = {GoKind.STRING: str, GoKind.BOOL: bool}
_CHECKS: Mapping[GoKind, Check] = {
    GoKind.STRING: lambda value: type(value) is str,
    GoKind.BOOL: lambda value: type(value) is bool,
    GoKind.FLOAT: lambda value: type(value) is float or (type(value) is int and abs(value) <= LARGEST_EXACT),
    GoKind.INT_OR_STRING: _is_int_or_string,
    GoKind.QUANTITY: is_canonical_quantity,
    GoKind.TIME: functools.partial(is_canonical_time, layout=TIME_LAYOUT),
    GoKind.MICRO_TIME: functools.partial(is_canonical_time, layout=MICRO_TIME_LAYOUT),
    GoKind.BYTES: is_canonical_base64,
    GoKind.ANY: lambda value: value is not None,
}
