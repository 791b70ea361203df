"""Objects decoded as Go decodes them: ``sigs.k8s.io/json`` into Kubernetes' types, in its words.

Of several values of the wrong type, the first is reported: the decoder goes on after one. Types that read themselves,
such as times and quantities, end it at once, and their error counts. Unknown fields are reported only if all else is
well, at most 100 of them.

Source: ``sigs.k8s.io/json/internal/golang/encoding/json/{decode,kubernetes_patch}.go``.
"""

from __future__ import annotations

import base64
import json
import operator
from typing import NamedTuple, Self

from pratique.apimachinery.diff import identical
from pratique.apimachinery.errors import PratiqueError
from pratique.apimachinery.json_reading import go_kind
from pratique.apimachinery.json_values import INT64, JSON, JSONObject
from pratique.cluster.go_checks import LARGEST_EXACT, check_of
from pratique.cluster.go_scalars import (
    MICRO_TIME_LAYOUT,
    TIME_LAYOUT,
    ZERO_TIMES,
    GoScalarError,
    canonical_bytes,
    canonical_quantity,
    canonical_time,
)
from pratique.cluster.go_types import GoField, GoKind, GoType

MISSING = object()
"""Stands for a missing previous value."""
_MAX_STRICT_ERRORS = 100


class TypedDecodingError(PratiqueError):
    """An object does not fit its Go type. The message is that of Go's decoder, and quotes only times and numbers."""


class WrittenNumber(float):
    """A number that remembers its text, which quantities and errors have: ``1e3`` is not ``1000``."""

    def __new__(cls, text: str) -> Self:
        """Read a number."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    text: str


def read_with_numbers(raw: bytes) -> JSON:
    """Parse JSON text, keeping the texts of all numbers that are not int64."""
    return _decoder.decode(raw.decode())


def _integer(text: str) -> int | WrittenNumber:
    return number if len(text) < _MAX_DIGITS and (number := int(text)) in INT64 else WrittenNumber(text)


_MAX_DIGITS = 100
"""No int64 has nearly as many, and Python reads very long integers slowly."""
_decoder = json.JSONDecoder(parse_float=WrittenNumber, parse_int=_integer)


def _plain(value: JSON) -> JSON:
    """A value whose numbers are floats again."""
    match value:
        case WrittenNumber():
            return float(value)
        case dict():
            return {name: _plain(child) for name, child in value.items()}
        case list():
            return [_plain(item) for item in value]
    return value


class Place(NamedTuple):
    """Where a value is, as Go's decoder reports it."""

    struct: str = ""
    fields: tuple[str, ...] = ()
    """Its fields, and the structs that they are embedded with, without list indexes and map keys."""
    steps: tuple[str | int, ...] = ()
    """All that leads to it: unknown fields are reported with it."""
    is_within: bool = False
    """Whether it is in a type that reads itself, whose errors name the struct that it is in."""

    def field(self, kind: GoType, field: GoField) -> Place:
        """A field of the struct at this place."""
        struct = self.struct if self.is_within else kind.struct_name
        fields = (*self.fields, *field.embedded, field.name)
        return Place(struct, fields, (*self.steps, field.name), self.is_within)

    def below(self, step: str | int) -> Place:
        """An item of the list or a member of the map at this place."""
        return self._replace(steps=(*self.steps, step))

    def mismatch(self, found: str, go_type: str) -> str:
        """The error for a value of the wrong type: ``UnmarshalTypeError``."""
        where = f"Go struct field {self.struct}.{'.'.join(self.fields)}" if self.fields else "Go value"
        return f"json: cannot unmarshal {found} into {where} of type {go_type}"

    def path(self, name: str) -> str:
        """The path to a member, as strict errors have it: ``spec.containers[0].img``."""
        written = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.steps)
        return f"{written}.{name}".removeprefix(".")


class GoDecoder:
    """Walks an object and its type side by side, and its previous state if there is one."""

    def __init__(self, *, rewrites: bool = False, has_texts: bool = False) -> None:
        """Start.

        Args:
            rewrites: Whether to write values as Go does after decoding: null fields are gone, as are zeros
                that it omits, and times, quantities and base64 have one form.
            has_texts: Whether numbers are those of :func:`read_with_numbers`.
        """
        self._has_texts = has_texts
        self.needs_text = False
        """Whether a float stands where its text counts, see :class:`WrittenNumber`."""
        self._first = ""
        self._rewrites = rewrites
        self._unknown: dict[str, None] = {}

    @property
    def unknown_fields(self) -> tuple[str, ...]:
        """The paths of unknown fields."""
        return tuple(self._unknown)

    def finish(self) -> None:
        """Raise the first mismatch."""
        if self._first:
            raise TypedDecodingError(self._first)

    def decode(self, kind: GoType, value: JSON, place: Place, before: JSON = MISSING) -> JSON:
        """Decode a value that may have changed, and return it without unknown fields.

        Args:
            kind: The type.
            value: The value, which is not modified.
            place: Where it is.
            before: What was there before; values that were are not decoded again.

        Raises:
            TypedDecodingError: a type that reads itself cannot read its value.
        """
        if value is before or value is None:
            return value
        if self._rewrites and not self._has_texts and check_of(kind)(value):
            return value  # only on the path to what is wrong is every value looked at again
        match kind.kind:
            case GoKind.STRUCT if isinstance(value, dict):
                return self._struct(kind, value, place, before)
            case GoKind.MAP if isinstance(value, dict):
                return self._map(kind, value, place, before)
            case GoKind.LIST if isinstance(value, list):
                return self._list(kind, value, place, before)
        return value if before is not MISSING and identical(value, before) else self._leaf(kind, value, place)

    def _leaf(self, kind: GoType, value: JSON, place: Place) -> JSON:
        try:
            return self._scalar(kind, value, place)
        except GoScalarError as error:
            raise TypedDecodingError(str(error)) from None

    def _struct(self, kind: GoType, value: JSONObject, place: Place, before: JSON) -> JSON:
        former_value = before if isinstance(before, dict) else {}
        kept: JSONObject | None = None
        changed = [name for name, child in value.items() if child is not former_value.get(name, MISSING)]
        if former_value and len(changed) > 1:
            changed.sort()  # Go writes the objects above a change again, with sorted names, before decoding them
        for name in changed:
            child, former = value[name], former_value.get(name, MISSING)
            field = kind.fields.get(name)
            if field is None:
                if not identical(child, former):
                    self._add_unknown(place.path(name))
                    kept = value.copy() if kept is None else kept
                    del kept[name]
                continue
            if field.type.kind is GoKind.STRING and type(child) is str:
                continue  # the most frequent change
            decoded = self.decode(field.type, child, place.field(kind, field), former)
            is_omitted = decoded is None or (not decoded and field.omits_zero_scalars)
            if is_omitted and self._rewrites:
                kept = value.copy() if kept is None else kept
                del kept[name]
            elif decoded is not child:
                kept = value.copy() if kept is None else kept
                kept[name] = decoded
        return value if kept is None else kept

    def _map(self, kind: GoType, value: JSONObject, place: Place, before: JSON) -> JSON:
        former_value = before if isinstance(before, dict) else {}
        values = kind.items
        if values is None or (values.kind is GoKind.STRING and set(map(type, value.values())) == {str}):
            return value
        decoded = {
            name: zero_value(values)
            if child is None
            else self.decode(values, child, place.below(name), former_value.get(name, MISSING))
            for name, child in value.items()
        }
        return value if all(map(operator.is_, decoded.values(), value.values())) else decoded

    def _list(self, kind: GoType, value: list[JSON], place: Place, before: JSON) -> JSON:
        # Inserting moves the other items: an item that was anywhere in the old list is not checked again.
        former_value = before if isinstance(before, list) else []
        known = {id(item) for item in former_value}
        items = kind.items
        if items is None:
            return value
        decoded = []
        for n, item in enumerate(value):
            former = former_value[n] if n < len(former_value) else MISSING
            if item is None:
                decoded.append(zero_value(items))
            elif item is former or id(item) in known:
                decoded.append(item)
            else:
                decoded.append(self.decode(items, item, place.below(n), former))
        return value if all(map(operator.is_, decoded, value)) else decoded

    def _scalar(self, kind: GoType, value: JSON, place: Place) -> JSON:  # noqa: PLR0911 - a type each
        """Decode a value without parts, or of another JSON type than its own."""
        if type(value) is float:
            self.needs_text = True
        match kind.kind:
            case GoKind.ANY:
                return _plain(value) if self._has_texts else value
            case GoKind.INTEGER:
                return self._integer(kind, value, place)
            case GoKind.INT_OR_STRING:
                return _int_or_string(value, place)
            case GoKind.QUANTITY:
                return self._written(value, canonical_quantity(_quantity_text(value)))
            case GoKind.TIME | GoKind.MICRO_TIME:
                return self._written(value, _time(kind.kind, value, place))
            case GoKind.BYTES if isinstance(value, str | list):
                return self._bytes(kind, value, place)
            case GoKind.SCHEMA:
                return self._schema(kind, value, place)
        if not isinstance(value, _JSON_TYPES.get(kind.kind, ())) or (
            isinstance(value, bool) and kind.kind is not GoKind.BOOL
        ):
            self._mismatch(go_kind(value), kind, place)
        is_rounded = type(value) is int and kind.kind is GoKind.FLOAT and abs(value) > LARGEST_EXACT
        return float(value) if is_rounded or type(value) is WrittenNumber else value

    def _written(self, value: JSON, canonical: str | None) -> JSON:
        return canonical if self._rewrites and canonical != value else value

    def _integer(self, kind: GoType, value: JSON, place: Place) -> JSON:
        found = _integer_fault(value, kind.bits)
        if found:
            self._mismatch(found, kind, place)
        return value

    def _bytes(self, kind: GoType, value: JSON, place: Place) -> JSON:
        if isinstance(value, str):
            try:
                return self._written(value, canonical_bytes(value))
            except GoScalarError as error:
                self._record(str(error))
                return value
        numbers = [0 if item is None else item for item in value]
        for item in numbers:
            if kind.items is not None and (fault := _integer_fault(item, kind.items.bits)):
                self._mismatch(fault, kind.items, place)
                return value
        return base64.b64encode(bytes(numbers)).decode() if self._rewrites else value

    def _schema(self, kind: GoType, value: JSON, place: Place) -> JSON:
        """Decode a schema, or a boolean or a list in its place; nobody reports unknown fields in it.

        What is neither a schema nor a list of schemas counts as no field that is missing, but as False, which prints
        otherwise than an empty list.

        Source: ``k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/marshal.go``.
        """
        is_or_bool, is_or_strings = kind.name.endswith("OrBool"), kind.name.endswith("OrStringArray")
        if kind.items is None or (is_or_bool and isinstance(value, bool)):
            return value
        if is_or_bool and not isinstance(value, dict):
            raise TypedDecodingError("boolean or JSON schema expected")
        self.needs_text = True
        decoder = GoDecoder(rewrites=self._rewrites, has_texts=self._has_texts)
        within = place._replace(is_within=True)
        decoded: JSON = (None if is_or_strings else False) if self._rewrites else value
        if isinstance(value, dict):
            decoded = decoder.decode(kind.items, value, within)
        elif isinstance(value, list):
            item = _STRING if is_or_strings else kind.items
            listed = decoder.decode(GoType(GoKind.LIST, f"[]{item.name}", item), value, within)
            decoded = listed or value
        decoder.finish()
        return decoded

    def _mismatch(self, found: str, kind: GoType, place: Place) -> None:
        self._record(place.mismatch(found, kind.name))

    def _record(self, text: str) -> None:
        self._first = self._first or text

    def _add_unknown(self, path: str) -> None:
        if len(self._unknown) < _MAX_STRICT_ERRORS:
            self._unknown[path] = None


_STRING = GoType(GoKind.STRING, "string")
_JSON_TYPES = {GoKind.STRING: (str,), GoKind.BOOL: (bool,), GoKind.FLOAT: (int, float)}


def _integer_fault(value: JSON, bits: int) -> str:
    """What Go says that it found instead of an integer; empty if it is one that fits."""
    found = go_kind(value)
    if found != "number":
        return found
    smallest, beyond = (0, 1 << 8) if bits == 8 else (-(1 << bits - 1), 1 << bits - 1)
    return "" if isinstance(value, int) and smallest <= value < beyond else f"number {_number_text(value)}"


def _number_text(value: JSON) -> str:
    return value.text if isinstance(value, WrittenNumber) else str(value)


def _int_or_string(value: JSON, place: Place) -> JSON:
    fault = "" if isinstance(value, str) else _integer_fault(value, 32)
    if fault:
        raise TypedDecodingError(place.mismatch(fault, "int32"))
    return value


def _quantity_text(value: JSON) -> str:
    """What Go's parser of quantities gets of a JSON value."""
    if isinstance(value, str):
        return value
    return _number_text(value) if go_kind(value) == "number" else "none"


def _time(kind: GoKind, value: JSON, place: Place) -> str | None:
    if not isinstance(value, str):
        raise TypedDecodingError(place.mismatch(go_kind(value), "string"))
    written = canonical_time(value, MICRO_TIME_LAYOUT if kind is GoKind.MICRO_TIME else TIME_LAYOUT)
    return None if written in ZERO_TIMES else written


_ZERO_VALUES = {
    GoKind.STRING: "",
    GoKind.INTEGER: 0,
    GoKind.FLOAT: 0,
    GoKind.BOOL: False,
    GoKind.QUANTITY: "0",
    GoKind.INT_OR_STRING: 0,
}


def zero_value(kind: GoType) -> JSON:
    """What Go makes of null where a map or list has a value of that type; None if that is null again."""
    if kind.is_pointer:
        return None
    return {} if kind.kind is GoKind.STRUCT else _ZERO_VALUES.get(kind.kind)
