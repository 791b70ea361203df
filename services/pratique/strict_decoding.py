"""Strict decoding: from JSON data to a typed value, with every mistake found and none forgiven.

Unknown members are refused as ``k8s.io/apimachinery/pkg/runtime/error.go`` words it, and values of another
type as the API server words it for custom resources. As in Go, null means that the member is absent.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import inspect

from pratique.base64_values import decode_base64
from pratique.field_errors import OMITTED, ROOT, FieldPath, invalid, type_invalid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pratique.json_values import JSON

T = TypeVar("T", bound=msgspec.Struct)


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: where, and what is said of it. The text names the field too."""

    path: FieldPath
    text: str

    def __str__(self) -> str:
        return self.text


class StrictDecodingError(ValueError):
    """Data is not of the type expected. Prints as the API server prints it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Hold all that is wrong, in the order of the data."""
        super().__init__(f"strict decoding error: {', '.join(str(problem) for problem in problems)}")
        self.problems = tuple(problems)


def decode_strictly(data: JSON, kind: type[T]) -> T:
    """Make a typed value of JSON data.

    Raises:
        StrictDecodingError: a member is unknown or of another type; it holds every such mistake.
    """
    walk = _Walk()
    cleaned = walk.clean(data, _type_info(kind), ROOT)
    if walk.problems:
        raise StrictDecodingError(walk.problems)
    try:
        return msgspec.convert(cleaned, kind)
    except msgspec.ValidationError as error:
        raise StrictDecodingError([Problem(ROOT, str(error))]) from None


@functools.cache
def _type_info(kind: type) -> inspect.Type:
    return inspect.type_info(kind)


class _Walk:
    """One pass over data and its type side by side, which collects what is wrong."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def clean(self, value: JSON, info: inspect.Type, path: FieldPath) -> JSON:
        """Check a value, and leave out of it what is null."""
        info = _without_none(info)
        if value is None:
            return _ZEROS.get(type(info))
        wanted, types = _WANTED.get(type(info), ("", (object,)))
        if not isinstance(value, types) or (wanted == "integer" and isinstance(value, bool)):
            self._mismatch(value, path, wanted)
            return value
        return self._clean_inside(value, info, path)

    def _clean_inside(self, value: JSON, info: inspect.Type, path: FieldPath) -> JSON:
        match info:
            case inspect.StructType():
                return self._clean_struct(value, info, path)
            case inspect.ListType() | inspect.VarTupleType():
                items = enumerate(value)
                return [self.clean(item, info.item_type, path / index) for index, item in items]
            case inspect.DictType():
                members = value.items()
                return {name: self.clean(item, info.value_type, path / name) for name, item in members}
            case inspect.IntType():
                self._check_range(value, info, path)
            case inspect.BytesType():
                return self._decode(value, path)
        return value

    def _clean_struct(self, value: JSON, info: inspect.StructType, path: FieldPath) -> JSON:
        fields = {field.encode_name: field.type for field in info.fields}
        cleaned = {}
        for name, item in value.items():
            place = path / name
            if name not in fields:
                self.problems.append(Problem(place, f'unknown field "{place}"'))
            elif item is not None:
                cleaned[name] = self.clean(item, fields[name], place)
        return cleaned

    def _check_range(self, value: int, info: inspect.IntType, path: FieldPath) -> None:
        low, high = info.ge, info.le
        if low is not None and high is not None and not low <= value <= high:
            detail = f"must be between {low} and {high}, inclusive"
            self.problems.append(Problem(path, str(invalid(path, value, detail))))

    def _decode(self, value: str, path: FieldPath) -> bytes:
        try:
            return decode_base64(value)
        except ValueError as error:
            self.problems.append(Problem(path, str(invalid(path, OMITTED, str(error)))))
            return b""

    def _mismatch(self, value: JSON, path: FieldPath, wanted: str) -> None:
        found = _type_name(value)
        body = f"{path} in body" if path.steps else "body"
        error = type_invalid(path, found, f'{body} must be of type {wanted}: "{found}"')
        self.problems.append(Problem(path, str(error) if path.steps else error.body))


_WANTED: Mapping[type[inspect.Type], tuple[str, tuple[type, ...]]] = {
    inspect.StructType: ("object", (dict,)),
    inspect.DictType: ("object", (dict,)),
    inspect.ListType: ("array", (list,)),
    inspect.VarTupleType: ("array", (list,)),
    inspect.StrType: ("string", (str,)),
    inspect.BytesType: ("string", (str,)),
    inspect.BoolType: ("boolean", (bool,)),
    inspect.IntType: ("integer", (int,)),
    inspect.FloatType: ("number", (int, float)),
}
_ZEROS: Mapping[type[inspect.Type], JSON] = {
    inspect.StructType: {},
    inspect.DictType: {},
    inspect.ListType: [],
    inspect.VarTupleType: [],
    inspect.StrType: "",
    inspect.BytesType: b"",
    inspect.BoolType: False,
    inspect.IntType: 0,
    inspect.FloatType: 0.0,
}
_TYPE_NAMES = {bool: "boolean", str: "string", int: "integer", float: "number", list: "array", dict: "object"}


def _type_name(value: JSON) -> str:
    return _TYPE_NAMES.get(type(value), "null")


def _without_none(info: inspect.Type) -> inspect.Type:
    """What a type is where it is not None."""
    if not isinstance(info, inspect.UnionType):
        return info
    others = [other for other in info.types if not isinstance(other, inspect.NoneType)]
    return others[0] if len(others) == 1 else inspect.AnyType()
