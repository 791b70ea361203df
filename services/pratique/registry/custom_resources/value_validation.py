"""Value validations of JSON schema on single values, in the words of the go-openapi validator.

Sources, below ``k8s.io/kube-openapi/pkg/validation``: ``validate/{values,validator,type}.go`` and ``errors/schema.go``;
their translation to field errors: ``kubeOpenAPIResultToFieldErrors`` in
``k8s.io/apiextensions-apiserver/pkg/apiserver/validation/validation.go``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from pratique.apimachinery.field_errors import (
    MAX_ERROR_CHARACTERS,
    MAX_ERRORS,
    FieldError,
    FieldPath,
    GoLiteral,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)
from pratique.apimachinery.json_values import INT64, JSON, go_json, with_sorted_names
from pratique.apimachinery.statuses import go_quoted
from pratique.cel.values import double_text, to_text
from pratique.registry.custom_resources.correlation import deep_equal

NIL_PATH = FieldPath(("<nil>",))
"""How Go prints the path to an object as a whole."""
_OVERFLOW = -(2**63)
"""What Go makes of a float that is no int64, on the processors that most API servers run on."""


class Violation(msgspec.Struct, frozen=True):
    """What the validator says, by which duplicates are dropped, and the field error that the API server makes of it."""

    message: str
    error: FieldError


def field_path(path: str) -> FieldPath:
    """The path of an error, from its text."""
    text = path.removeprefix(".")
    return FieldPath((text,)) if text else NIL_PATH


def shown(value: JSON) -> JSON | GoLiteral:
    """A value as it prints in an error: objects with sorted names, and floats otherwise than in JSON."""
    if isinstance(value, dict | list):
        return GoLiteral(go_json(with_sorted_names(value)))
    return GoLiteral(double_text(value)) if type(value) is float else value


def _as_int64(number: float) -> int:
    """A number as Go converts it to an integer."""
    return int(number) if math.isfinite(number) and int(number) in INT64 else _OVERFLOW


def plain(message: str) -> Violation:
    """An error that belongs to no field."""
    return Violation(message, invalid(NIL_PATH, "", message))


ERRORS_LEFT_OUT = (
    f"further errors are left out: there are more than {MAX_ERRORS} errors, or than {MAX_ERROR_CHARACTERS} characters"
    " of errors"
)
"""Stands for the errors that are left out."""


def told(errors: Iterable[FieldError]) -> list[FieldError]:
    """As many errors as are told of one object, and one more if others are left out."""
    first: list[FieldError] = []
    characters = 0
    for error in errors:
        if len(first) >= MAX_ERRORS or characters > MAX_ERROR_CHARACTERS:
            return [*first, plain(ERRORS_LEFT_OUT).error]
        first.append(error)
        characters += len(str(error))
    return first


def invalid_value(path: str, value: JSON, message: str) -> Violation:
    """A value that breaks a constraint."""
    return Violation(message, invalid(field_path(path), shown(value), message))


def invalid_type(path: str, type_: str, found: str) -> Violation:
    """A value of the wrong type or format."""
    message = f"{path} in body must be of type {type_}: {go_quoted(found)}"
    return Violation(message, type_invalid(field_path(path), found, message))


def missing(path: str) -> Violation:
    """A missing field."""
    return Violation(f"{path} in body is required", required(field_path(path)))


def too_many_parts(path: str, count: int, maximum: int, parts: str) -> Violation:
    """Too many items or properties."""
    message = f"{path} in body should have at most {maximum} {parts}"
    return Violation(message, too_many(field_path(path), count, maximum))


def too_long_text(path: str, maximum: int, message: str) -> Violation:
    """Too long a string."""
    return Violation(message, too_long(field_path(path), maximum))


def not_in_enum(path: str, value: JSON, enum: Sequence[JSON]) -> Violation:
    """A value that is not enumerated."""
    texts = [allowed if isinstance(allowed, str) else go_json(with_sorted_names(allowed)) for allowed in enum]
    message = f"{path} in body should be one of [{' '.join(map(to_text, enum))}]"
    return Violation(message, not_supported(field_path(path), shown(value), texts))


_GO_TYPES = {
    str: ("string", ""),
    bool: ("boolean", ""),
    int: ("integer", "int64"),
    float: ("number", "float64"),
    list: ("array", ""),
    dict: ("object", ""),
}
"""The type and the format of a value: ``schemaInfoForType``."""
_LARGEST_JSON_INTEGER = 2**53 - 1
_EPSILON = 1e-9


def is_json_integer(value: float) -> bool:
    """Whether a float is as good as an integer: ``IsFloat64AJSONInteger``."""
    if not abs(value) <= _LARGEST_JSON_INTEGER:
        return False
    rounded = math.copysign(math.floor(abs(value) + 0.5), value)
    return value == rounded or abs(value - rounded) < _EPSILON * abs(rounded)


def type_violation(
    value: JSON, types: tuple[str, ...], format_: str, path: str, *, nullable: bool
) -> Violation | None:
    """What is wrong with the type of a value: ``typeValidator.Validate``."""
    if value is None:
        return None if nullable or not types else invalid_type(path, ",".join(types), "null")
    if not types and not format_:
        return None
    kind, form = _GO_TYPES[type(value)]
    fits = (
        kind in types
        or (kind == "integer" and "number" in types)
        or (kind == "number" and "integer" in types and is_json_integer(value))
    )
    is_text = kind in ("string", "array")
    if format_ and not is_text and not fits:
        return invalid_type(path, format_, form)
    if format_ and is_text and not {"number", "integer"} & {*types}:
        return None
    return None if fits else invalid_type(path, ",".join(types), kind)


def enum_has(enum: Iterable[JSON], value: JSON) -> bool:
    """Whether a value is enumerated, after a conversion of Go's: ``basicCommonValidator.Validate``."""
    return any(_converts(value, allowed) for allowed in enum)


def _converts(value: JSON, allowed: JSON) -> bool:
    kind, wanted = type(value), type(allowed)
    if value is None or allowed is None:
        return False
    if kind is wanted:
        return deep_equal(value, allowed)
    if kind is int and wanted is float:
        return bool(float(value) == allowed)
    if kind is float and wanted is int:
        return math.isfinite(value) and bool(int(value) == allowed)
    if kind is int and wanted is str:  # Go converts an integer to the character of that number
        return bool(allowed == (chr(value) if 0 <= value < 0x110000 else "\ufffd"))
    return False


class NumberBounds(msgspec.Struct, frozen=True):
    """The bounds of a number: ``numberValidator``."""

    type: str
    """``integer`` or ``number``; empty if the schema has no type, or several."""
    format: str
    """A format of that type, or empty."""
    multiple_of: float | None
    maximum: float | None
    minimum: float | None
    exclusive_maximum: bool
    exclusive_minimum: bool

    def violations(self, value: float, path: str) -> Iterator[Violation]:
        """Find what is wrong with a number, in the validator's order."""
        if not self._in_range(value):
            yield self._out_of_range("Checked", path)
        if self.multiple_of is not None:
            yield from self._multiple(value, self.multiple_of, path)
        if self.minimum is not None:
            yield from self._bound(value, self.minimum, path, is_maximum=False)
        if self.maximum is not None:
            yield from self._bound(value, self.maximum, path, is_maximum=True)

    def checks(self, *, is_int: bool) -> list[Callable[[float], bool]]:
        """What an integer, or else a float, has to pass to have no errors."""
        bounds = (self.multiple_of, self.maximum, self.minimum)
        if all(bound is None for bound in bounds) and self.format != "float":
            if self.type != "integer" or (is_int and self.format != "int32"):
                return []
        elif is_int and self.multiple_of is None and self.format != "int32" and not self._has_odd_bound:
            lowest = -math.inf if self.minimum is None else int(self.minimum) + self.exclusive_minimum
            highest = math.inf if self.maximum is None else int(self.maximum) - self.exclusive_maximum
            return [lambda value: lowest <= value <= highest]
        return [lambda value: next(self.violations(value, ""), None) is None]

    @property
    def _has_odd_bound(self) -> bool:
        """Whether a bound is not as exact as the numbers that it is for."""
        bounds = (bound for bound in (self.minimum, self.maximum) if bound is not None)
        return any(bound != int(bound) or int(bound) not in INT64 for bound in bounds)

    def _in_range(self, value: float) -> bool:
        if self.type == "integer":
            if type(value) is float and not (math.isfinite(value) and value.is_integer()):
                return False
            bits = 31 if self.format == "int32" else 63
            return -(1 << bits) <= value < 1 << bits
        if self.format != "float":
            return True
        try:
            struct.pack("f", value)
        except OverflowError:
            return False
        return True

    def _out_of_range(self, what: str, path: str) -> Violation:
        form = f"with format {self.format}" if self.format else "(default format)"
        return plain(f"{what} value must be of type {self.type} {form} in {path}")

    def _multiple(self, value: float, factor: float, path: str) -> Iterator[Violation]:
        exact = self._in_range(factor)
        if not exact:
            yield self._out_of_range("MultipleOf", path)
        if exact and type(value) is int:
            factor = _as_int64(factor)
            positive = factor > 0
            text, fits = str(factor), positive and value % factor == 0
        else:
            value, text, positive = float(value), double_text(float(factor)), factor > 0
            fits = positive and is_json_integer(1 / factor * value if factor < 1 else value / factor)
        if not positive:
            yield invalid_value(
                path, factor, f"factor MultipleOf declared for {path} must be positive: {text}"
            )
        elif not fits:
            yield invalid_value(path, value, f"{path} in body should be a multiple of {text}")

    def _bound(self, value: float, bound: float, path: str, *, is_maximum: bool) -> Iterator[Violation]:
        exclusive = self.exclusive_maximum if is_maximum else self.exclusive_minimum
        exact = self._in_range(bound)
        if not exact:
            yield self._out_of_range("Maximum boundary" if is_maximum else "Minimum boundary", path)
        if exact and type(value) is int:
            bound = _as_int64(bound)
        else:
            value, bound = float(value), float(bound)
        if value == bound and not exclusive:
            return
        if value == bound or (value > bound) is is_maximum:
            word = "less" if is_maximum else "greater"
            equal = "" if exclusive else " or equal to"
            than = f"{word} than{equal}"
            yield invalid_value(path, value, f"{path} in body should be {than} {to_text(bound)}")
