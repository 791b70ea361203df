"""Types and values of CEL rules: what a structural schema declares, and the values of objects in those types.

Sources: ``k8s.io/apiserver/pkg/cel/common/{schemas,valuesunstructured}.go`` and
``k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model/schemas.go``.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, TypeAlias

import msgspec

from pratique.apimachinery import durations
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.go_formats import decode_base64, go_type_of
from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.patterns import pattern
from pratique.cel.activation import KeyedList
from pratique.cel.compilation_errors import render_type
from pratique.cel.declarations import declare_schema, field_name
from pratique.cel.environments import Environment
from pratique.cel.expressions import checked_tree
from pratique.cel.structs import EscapedKey
from pratique.cel.syntax_trees import CallExpr, walk
from pratique.cel.values import NANOSECONDS, Duration, Timestamp, Value
from pratique.cluster.schemas import ListType, MapType, Scalar, Structure, Type
from pratique.registry.custom_resources.structural import Structural

SELF = "self"
OLD_SELF = "oldSelf"

_TEXT_FORMATS: Mapping[str, Scalar] = {
    "byte": Scalar.BYTES,
    "duration": Scalar.DURATION,
    "date": Scalar.DATE,
    "date-time": Scalar.DATE_TIME,
}
_SCALARS: Mapping[str, Scalar] = {
    "boolean": Scalar.BOOLEAN,
    "number": Scalar.NUMBER,
    "integer": Scalar.INTEGER,
}
_OBJECT_FIELDS: Mapping[str, Type] = {
    "apiVersion": Scalar.STRING,
    "kind": Scalar.STRING,
    "metadata": Structure("", lambda: {"name": Scalar.STRING, "generateName": Scalar.STRING}),
}
"""What rules see of a whole object besides its schema."""


def declared_type(schema: Structural, *, is_root: bool = False) -> Type | None:
    """The type of a schema in rules; None if rules cannot see it: ``SchemaDeclType``."""
    if schema.is_int_or_string:
        return Scalar.INT_OR_STRING
    if schema.type == "array":
        items = _child_type(schema.items)
        return None if items is None else ListType(items)
    if schema.type == "object":
        if schema.additional is not None:
            values = _child_type(schema.additional)
            return None if values is None else MapType(values)
        return _structure(schema, is_root=is_root)
    if schema.type == "string":
        return _TEXT_FORMATS.get(schema.written.get("format") or "", Scalar.STRING)
    return _SCALARS.get(schema.type)


def _child_type(schema: Structural | None) -> Type | None:
    return None if schema is None else declared_type(schema, is_root=schema.is_embedded)


def _structure(schema: Structural, *, is_root: bool) -> Structure:
    fields = {name: _child_type(child) for name, child in schema.properties.items()}
    known = {name: kind for name, kind in fields.items() if kind is not None}
    return Structure("", lambda: {**known, **_OBJECT_FIELDS} if is_root else known)


def rule_environment(schema: Structural, *, is_root: bool, optional_old: bool) -> Environment | None:
    """The variables of the rules of a schema; None if rules cannot see it."""
    kind = declared_type(schema, is_root=is_root)
    if kind is None:
        return None
    holder: Mapping[str, Type] = {SELF: kind}
    root, structs = declare_schema(Structure("", lambda: holder), "object", "rule")
    types = {name: dict(fields) for name, fields in structs}
    declared = types[root][SELF]
    old = f"optional_type<{declared}>" if optional_old else declared
    return Environment(
        variables=((SELF, declared), (OLD_SELF, old)),
        structs=tuple((name, fields) for name, fields in structs if name != root),
        is_rule=True,
    )


class InvalidData(msgspec.Struct, frozen=True):
    """A value that its schema lets pass although rules cannot read it: a list where a text has a format."""

    cel_type: ClassVar[str] = "error"
    problem: str
    """What the API server says of a rule that reads it."""


Conversion: TypeAlias = Callable[[JSON], Value]
"""Makes the CEL value of a JSON value."""


def conversion(schema: Structural, *, has_floats: bool = False) -> Conversion | None:
    """Compile the conversion of a schema's values to CEL; None if they are CEL values as they are.

    Args:
        schema: The schema.
        has_floats: Whether there may be a float where an integer belongs, as ``3.0``, which rules cannot read.
    """
    convert = functools.partial(conversion, has_floats=has_floats)
    if schema.is_int_or_string or schema.type in ("integer", "number", "string"):
        return _scalar_conversion(schema, has_floats=has_floats)
    if schema.type == "array" and schema.items is not None:
        items = convert(schema.items)
        return None if items is None else functools.partial(_convert_items, items)
    if schema.type == "object" and schema.additional is not None:
        values = convert(schema.additional)
        return None if values is None else functools.partial(_convert_values, values)
    return _member_conversion(schema, convert) if schema.type == "object" else None


def _scalar_conversion(schema: Structural, *, has_floats: bool) -> Conversion | None:
    if schema.is_int_or_string:
        return _to_int_or_string if has_floats else None
    if schema.type == "string":
        return _TEXT_CONVERSIONS.get(schema.written.get("format") or "")
    whole = _to_integer if has_floats else None
    return _to_double if schema.type == "number" else whole


def _member_conversion(
    schema: Structural, compiled: Callable[[Structural], Conversion | None]
) -> Conversion | None:
    converted = {name: compiled(child) for name, child in schema.properties.items()}
    needed = {name: convert for name, convert in converted.items() if convert is not None}
    renamed = {name: shown for name in schema.properties if (shown := field_name(name)) not in (name, None)}
    return functools.partial(_convert_members, needed, renamed) if needed or renamed else None


def has_float(value: JSON) -> bool:
    """Whether there is a float anywhere in a value."""
    if type(value) is dict:
        return any(map(has_float, value.values()))
    return any(map(has_float, value)) if type(value) is list else type(value) is float


def _convert_members(needed: Mapping[str, Conversion], renamed: Mapping[str, str], value: JSON) -> Value:
    if not isinstance(value, dict):
        return value
    return {
        renamed.get(name, name): needed[name](member) if name in needed else member
        for name, member in value.items()
    }


def _convert_values(convert: Conversion, value: JSON) -> Value:
    return {name: convert(member) for name, member in value.items()} if isinstance(value, dict) else value


def _convert_items(convert: Conversion, value: JSON) -> Value:
    return [convert(item) for item in value] if isinstance(value, list) else value


def _to_double(value: JSON) -> Value:
    if type(value) is int:
        return float(value)
    return value if value is None or type(value) is float else _invalid("float", value)


def _to_integer(value: JSON) -> Value:
    return _invalid("int", value) if type(value) is float else value


def _to_int_or_string(value: JSON) -> Value:
    if type(value) is not float:
        return value
    return InvalidData("invalid data, expected XIntOrString value to be either a string or integer")


def _invalid(wanted: str, value: JSON) -> InvalidData:
    return InvalidData(f"invalid data, expected {wanted}, got {go_type_of(value)}")


def _of_text(convert: Conversion) -> Conversion:
    """Convert texts alone."""

    def converted(value: JSON) -> Value:
        if type(value) is str:
            return convert(value)
        return None if value is None else _invalid("string", value)

    return converted


_TIMESTAMP = pattern(
    r"(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d:\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))?)?", re.ASCII
)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_NANO_DIGITS = 9


def _to_timestamp(value: JSON) -> Value:
    found = _TIMESTAMP.fullmatch(value)
    if found is None:
        return value
    try:
        moment = dt.datetime.fromisoformat(f"{found[1]}T{found[2] or '00:00:00'}+00:00")
    except ValueError:
        return value
    seconds = (moment - _EPOCH) // dt.timedelta(seconds=1)
    if found[4]:
        shift = 3600 * int(found[5]) + 60 * int(found[6])
        seconds += shift if found[4] == "-" else -shift
    return Timestamp(seconds * NANOSECONDS + int((found[3] or "")[:_NANO_DIGITS].ljust(_NANO_DIGITS, "0")))


_MOST_DIGITS = 19
_PART = pattern(r"(?<![0-9])([0-9]+)\s*([A-Za-zµ]+)")
_UNITS: tuple[tuple[int, tuple[str, ...], str], ...] = (
    (1, ("ns",), "nano"),
    (1_000, ("us", "µs"), "micro"),
    (1_000_000, ("ms",), "milli"),
    (NANOSECONDS, ("s",), "sec"),
    (60 * NANOSECONDS, ("m",), "min"),
    (3_600 * NANOSECONDS, ("h", "hr"), "hour"),
    (86_400 * NANOSECONDS, ("d",), "day"),
    (604_800 * NANOSECONDS, ("w", "wk"), "week"),
)
"""The units of Scala's durations: nanoseconds, exact names, and how longer names begin."""


def _to_duration(value: JSON) -> Value:
    try:
        return Duration(durations.parse(value).nanoseconds)
    except InputError:
        total = 0
    for digits, unit in _PART.findall(value):
        count = digits.lstrip("0") or "0"
        if len(count) > _MOST_DIGITS:
            return value  # no duration, and int() takes quadratic time
        for nanoseconds, exact, prefix in _UNITS:
            if unit.lower() in exact or unit.lower().startswith(prefix):
                total += int(count) * nanoseconds
    return Duration(total)


def _to_bytes(value: JSON) -> Value:
    try:
        return decode_base64(value)
    except ValueError:
        return value


_TEXT_CONVERSIONS: Mapping[str, Conversion] = {
    "byte": _of_text(_to_bytes),
    "duration": _of_text(_to_duration),
    "date": _of_text(_to_timestamp),
    "date-time": _of_text(_to_timestamp),
}


def invalid_parts(value: Value) -> list[InvalidData]:
    """The values inside a CEL value that rules cannot read."""
    if isinstance(value, InvalidData):
        return [value]
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [found for member in members for found in invalid_parts(member)]


# Lists that are sets, or maps by keys of their items


@functools.lru_cache(4096)
def has_keyed_lists(schema: Structural) -> bool:
    """Whether lists in the values of a schema are sets or maps, which rules compare and add in their own way."""
    return schema.list_type in _KEYED or any(map(has_keyed_lists, schema.children))


_KEYED = frozenset({"set", "map"})


def keyed_lists(value: Value, schema: Structural) -> Iterator[KeyedList]:
    """The sets and maps in a value, as rules have it, each with the keys of its items."""
    if not has_keyed_lists(schema):
        return
    if isinstance(value, list) and schema.items is not None:
        if schema.list_type in _KEYED:
            yield value, tuple(map(_key, schema.map_keys))
        for item in value:
            yield from keyed_lists(item, schema.items)
    elif isinstance(value, dict):
        for name, child in schema.properties.items():
            shown = field_name(name)
            yield from keyed_lists(value.get(name if shown is None else shown), child)
        if schema.additional is not None:
            for member in value.values():
                yield from keyed_lists(member, schema.additional)


def _key(name: str) -> str:
    """The key of a list's items as rules know it."""
    shown = field_name(name)
    return name if shown is None or shown == name else EscapedKey(shown)


def compares_lists(source: str, environment: Environment) -> bool:
    """Whether an expression may compare or add lists, or values that have some in them."""
    if not any(operator in source for operator in ("=", "+")):
        return False
    tree = checked_tree(source, environment)
    compared = (
        node.arguments[0]
        for node in walk(tree.root)
        if isinstance(node, CallExpr) and node.function in {"_==_", "_!=_", "_+_"}
    )
    return any(render_type(tree.types.get(node.number, b"")) not in _PLAIN for node in compared)


_PLAIN = frozenset({"string", "int", "uint", "double", "bool", "bytes", "timestamp", "duration", "null"})
"""Types whose values have no lists in them."""
