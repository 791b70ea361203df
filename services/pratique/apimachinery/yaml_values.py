"""YAML documents as JSON values, converted as ``sigs.k8s.io/yaml`` converts them."""

from __future__ import annotations

import base64
import binascii
import math
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec
from yaml._yaml import CParser
from yaml.error import MarkedYAMLError, YAMLError
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from yaml.reader import ReaderError

from pratique.apimachinery.field_errors import FieldPath, Step
from pratique.apimachinery.json_values import INT64, JSON, JSONObject, decode, float_text
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.source_documents import MOST_DUPLICATES

_Any: TypeAlias = Any
"""An event whose ``type()`` was just compared, which type checkers do not follow."""

MERGE_KEY = "<<"

_TAG_PREFIX = "tag:yaml.org,2002:"
_TRUE = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_CONSTANTS: Mapping[str, JSON] = {
    **dict.fromkeys(_TRUE, True),
    **dict.fromkeys(_FALSE, False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_CONSTANT_STARTS = frozenset("yYnNtTfFoO~")
_NUMBER_STARTS = frozenset("+-0123456789.")
NON_STRING_STARTS = _CONSTANT_STARTS | _NUMBER_STARTS
"""The first characters of plain scalars that may not be strings; the empty plain scalar is null."""

_INTEGER = pattern(
    r"(?P<sign>[-+]?)"
    r"(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[oO](?P<octal>[0-7]+)|0[bB](?P<binary>[01]+)"
    r"|0(?P<old_octal>[0-7]*)|(?P<decimal>[1-9][0-9]*))"
)
_BASES = {"hex": 16, "octal": 8, "binary": 2, "old_octal": 8, "decimal": 10}
_SIGNED_BINARY = pattern(r"0b([-+][01]+)")  # go-yaml accepts the sign after the prefix
_FLOAT = pattern(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_POINT_FLOAT = pattern(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")


def resolve(text: str) -> JSON:
    """Resolve a plain scalar (without quotes or tag).

    The result may be an infinity or NaN, which JSON cannot represent.
    """
    first = text[:1]
    if first in _NUMBER_STARTS:
        return _CONSTANTS[text] if text in _CONSTANTS else _resolve_number(text)
    if not first or first in _CONSTANT_STARTS:
        return _CONSTANTS.get(text, text)
    return text


def resolve_tagged(tag: str, text: str) -> JSON:
    """Resolve a tagged scalar.

    Raises:
        ValueError: the tag is not one of YAML's scalar tags, or the text does not match it.
    """
    name = tag.removeprefix(_TAG_PREFIX)
    if name == "binary":
        return _decode_binary(text)
    if name in {"str", "timestamp"}:
        return text
    types = _TAG_TYPES.get(name) if name != tag else None
    if types is None:
        raise ValueError(f"the tag {_short_tag(tag)} is not supported; leave it out")
    value = resolve(text)
    if name == "float" and type(value) is int:
        return float(value)
    if type(value) not in types:
        raise ValueError(f"cannot decode `{text}` as a {_short_tag(tag)}")
    return value


def check_collection_tag(tag: str | None, own: str) -> None:
    """Refuse a tag on a mapping or sequence other than its ``own``, ``map`` or ``seq``.

    Raises:
        ValueError: the tag is another.
    """
    if tag not in {None, "!", f"{_TAG_PREFIX}{own}"}:
        raise ValueError(f"the tag {_short_tag(tag or '')} is not supported; leave it out")


def key_text(value: JSON) -> str:
    """Convert a key to a string, as JSON needs it.

    Raises:
        ValueError: the key is null, a list or an object.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value < 2**63:
        return str(value)
    if isinstance(value, float):
        return _float_text(value)
    raise ValueError("a key must be text, a number or a boolean")


def _resolve_number(text: str) -> JSON:
    if text[0] == ".":
        return _parse_float(text, text) if _POINT_FLOAT.fullmatch(text) else text
    plain = text.replace("_", "")
    if (integer := _parse_integer(plain)) is not None:
        return integer
    if _FLOAT.fullmatch(plain):
        return _parse_float(plain, text)
    if quirk := _SIGNED_BINARY.fullmatch(plain):
        value = int(quirk[1], 2)
        return value if -(2**63) <= value < 2**63 else text
    return text


def _parse_integer(plain: str) -> int | None:
    """Parse an int64 or, without a sign, a uint64; None if it is neither."""
    found = _INTEGER.fullmatch(plain)
    if found is None or found.lastgroup is None:
        return None
    digits = found[found.lastgroup]
    if len(digits) > 64:  # 64 bits have at most 64 digits in any base, leading zeros aside
        digits = digits.lstrip("0")
    if len(digits) > 64:
        return None
    value = int(digits or "0", _BASES[found.lastgroup])
    if found["sign"]:
        value = -value if found["sign"] == "-" else value
        return value if -(2**63) <= value < 2**63 else None
    return value if value < 2**64 else None


def _parse_float(number: str, text: str) -> JSON:
    value = float(number)
    return text if math.isinf(value) else value


def _decode_binary(text: str) -> str:
    try:
        raw = base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except binascii.Error:
        raise ValueError("!!binary value contains invalid base64 data") from None
    return raw.decode("utf-8", "replace")


def _float_text(value: float) -> str:
    """Print as Go's ``FormatFloat(value, 'g', -1, 32)``: the shortest text that parses to the same 32-bit float."""
    if math.isnan(value):
        return ".nan"
    single = _single_precision(value)
    if math.isinf(single):
        return ".inf" if value > 0 else "-.inf"
    digits = next(n for n in range(1, 10) if _single_precision(float(f"{single:.{n}g}")) == single)
    mantissa, exponent = f"{single:.{digits - 1}e}".split("e")
    if -4 <= int(exponent) < 6:
        return f"{single:.{max(0, digits - 1 - int(exponent))}f}"
    return f"{mantissa}e{exponent}"


def _single_precision(value: float) -> float:
    try:
        (single,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return math.copysign(math.inf, value)
    return float(single)


def _short_tag(tag: str) -> str:
    return f"!!{tag.removeprefix(_TAG_PREFIX)}" if tag.startswith(_TAG_PREFIX) else tag


_TAG_TYPES: Mapping[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (float,),
    "null": (type(None),),
}


MAXIMUM_DEPTH = 500
"""The maximum depth of values: half of Python's recursion limit of 1,000, which leaves room for recursive code."""

_NUMBERS = frozenset({int, float})
_NO_KEY = "a key must be text, a number or a boolean"
_MERGE: Any = object()
_MAYBE_NON_STRING = NON_STRING_STARTS | {"", MERGE_KEY[0]}
"""The first characters of plain scalars that may be something other than a string."""


class YamlReadError(ValueError):
    """A YAML text cannot be read. ``line`` and ``column`` count from 1; 0 means unknown."""

    def __init__(self, problem: str, line: int = 0, column: int = 0) -> None:
        """Hold the message and the position."""
        super().__init__(problem)
        self.problem = problem
        self.line = line
        self.column = column


class DuplicateField(NamedTuple):
    """A field that a mapping holds again; its last value counts. Lines and columns count from 1."""

    path: tuple[Step, ...]
    line: int
    column: int


class YamlValue(msgspec.Struct, frozen=True):
    """One document: its value, and the line at which it begins, from 1."""

    value: JSON
    line: int
    duplicates: tuple[DuplicateField, ...] = ()
    """Its first duplicate fields, in order."""


def read_values(raw: bytes, *, unique_keys: bool = False) -> Iterator[YamlValue]:
    """Yield the documents of a YAML text one by one, without empty ones.

    Args:
        raw: The text, in UTF-8.
        unique_keys: Refuse a mapping with a duplicate key. Otherwise the last one wins.

    Raises:
        YamlReadError: the text is not YAML, or holds YAML that JSON cannot represent.
    """
    next_event = CParser(raw).get_event
    try:
        for event in iter(next_event, None):
            if isinstance(event, DocumentStartEvent):
                document = _Builder(next_event, unique_keys=unique_keys).build()
                if document.value is not None:
                    yield document
    except YAMLError as error:
        raise _read_error(error, raw) from None


class _Builder:
    """Builds the value of one document from its events.

    Every mapping and sequence takes one frame of Python's stack. The handling of events is inlined: reading dominates
    a review of many files, and function calls dominate reading.
    """

    def __init__(self, next_event: Callable[[], _Any], *, unique_keys: bool) -> None:
        self._next_event = next_event
        self._unique_keys = unique_keys
        self._path: list[Step] = []
        self._open: list[str | None] = []
        """The anchors of the mappings and sequences being read, None for those without."""
        self._anchors: dict[str, tuple[JSON, int]] = {}
        self._count = 0
        self._alias_count = 0
        self._duplicates: list[DuplicateField] = []
        self._ended: Event | None = None
        """The end event of the mapping or sequence read last."""

    def build(self) -> YamlValue:
        event = self._next_event()
        line, _ = _line_and_column(event)
        try:
            value = self._value(event)
        except YamlReadError:
            raise
        except ValueError as error:
            raise YamlReadError(str(error), *_line_and_column(event)) from None
        self._next_event()  # the end of the document
        return YamlValue(value, line, tuple(self._duplicates))

    def _value(self, event: _Any) -> JSON:
        """Read the value that begins with an event."""
        if isinstance(event, MappingStartEvent):
            return self._mapping(event)
        if isinstance(event, SequenceStartEvent):
            return self._sequence(event)
        return self._expand(event.anchor or "") if isinstance(event, AliasEvent) else self._scalar(event)

    def _scalar(self, event: ScalarEvent) -> JSON:
        self._count += 1
        value = _scalar(event)
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        return value

    def _mapping(self, start: MappingStartEvent) -> JSONObject:  # noqa: C901, PLR0912 - inlined, see the class
        event: _Any = start
        count_before = self._enter(start, "map")
        container: JSONObject = {}
        merged: set[str] = set()
        next_event, path = self._next_event, self._path
        try:
            while type(event := next_event()) is not MappingEndEvent:
                if type(event) is ScalarEvent and event.tag is None and event.anchor is None:
                    self._count += 1
                    key = event.value
                    if event.implicit[0] and key[:1] in _MAYBE_NON_STRING:
                        key = _MERGE if key == MERGE_KEY else key_text(resolve(key))
                else:
                    key = self._key(event)
                if key is not _MERGE:
                    # The same few names recur in all documents: interning stores each of them once.
                    key = sys.intern(key)
                    if key in container:
                        self._meet_again(key, merged, event)
                event = next_event()
                kind = type(event)
                if kind is ScalarEvent and event.tag is None and event.anchor is None:
                    self._count += 1
                    value = event.value
                    if event.implicit[0] and value[:1] in _MAYBE_NON_STRING:
                        value = resolve(value)
                elif kind is MappingStartEvent or kind is SequenceStartEvent:
                    path.append(MERGE_KEY if key is _MERGE else key)
                    value = self._mapping(event) if kind is MappingStartEvent else self._sequence(event)
                    path.pop()
                    event = self._ended
                else:
                    value = self._value(event)
                if key is _MERGE:
                    _merge(container, merged, value)
                else:
                    container[key] = json_number(value) if type(value) in _NUMBERS else value
        except YamlReadError:
            raise
        except ValueError as error:
            raise YamlReadError(str(error), *_line_and_column(event)) from None
        self._leave(start, container, event, count_before)
        return container

    def _sequence(self, start: SequenceStartEvent) -> list[JSON]:
        event: _Any = start
        count_before = self._enter(start, "seq")
        container: list[JSON] = []
        next_event, path = self._next_event, self._path
        try:
            while (kind := type(event := next_event())) is not SequenceEndEvent:
                if kind is ScalarEvent:
                    value = self._scalar(event)
                elif kind is AliasEvent:
                    value = self._expand(event.anchor or "")
                else:
                    path.append(len(container))
                    value = self._mapping(event) if kind is MappingStartEvent else self._sequence(event)
                    path.pop()
                container.append(json_number(value))
        except YamlReadError:
            raise
        except ValueError as error:
            raise YamlReadError(str(error), *_line_and_column(event)) from None
        self._leave(start, container, event, count_before)
        return container

    def _enter(self, start: MappingStartEvent | SequenceStartEvent, tag: str) -> int:
        """Begin a mapping or sequence; return how many values came before it."""
        if start.tag is not None:
            check_collection_tag(start.tag, tag)
        if len(self._open) >= MAXIMUM_DEPTH:
            raise ValueError(f"nested deeper than {MAXIMUM_DEPTH} levels")
        if start.anchor:
            self._anchors.pop(start.anchor, None)
        self._open.append(start.anchor)
        self._count += 1
        return self._count - 1

    def _leave(
        self, start: MappingStartEvent | SequenceStartEvent, container: JSON, end: Event, count_before: int
    ) -> None:
        self._open.pop()
        self._ended = end
        if start.anchor:
            self._anchors[start.anchor] = (container, self._count - count_before)

    def _key(self, event: Event) -> JSON:
        """Read a key that has a tag, an anchor or an alias, or is not a scalar."""
        if isinstance(event, MappingStartEvent | SequenceStartEvent):
            self._enter(event, "map" if isinstance(event, MappingStartEvent) else "seq")
            raise ValueError(_NO_KEY)  # noqa: TRY004 - an error of the text, as everywhere here
        if isinstance(event, ScalarEvent) and _is_merge(event):
            self._scalar(event)
            return _MERGE
        return key_text(self._value(event))

    def _meet_again(self, key: str, merged: set[str], event: Event) -> None:
        """Note or refuse a duplicate key, unless it was merged: a merged key may be overridden once."""
        if key in merged:
            merged.discard(key)
            return
        path = (*self._path, key)
        if self._unique_keys:
            raise ValueError(f'strict decoding error: duplicate field "{FieldPath(path)}"')
        if len(self._duplicates) < MOST_DUPLICATES:
            self._duplicates.append(DuplicateField(path, *_line_and_column(event)))

    def _expand(self, anchor: str) -> JSON:
        """Copy the value of an alias, unless aliases make up too much of the document: go-yaml's limit."""
        if anchor in self._open and anchor not in self._anchors:
            raise ValueError(f"anchor '{anchor}' value contains itself")
        if anchor not in self._anchors:
            raise ValueError(f"unknown anchor '{anchor}' referenced")
        value, size = self._anchors[anchor]
        self._count += 1 + size
        self._alias_count += size
        if (
            self._alias_count > 100
            and self._count > 1000
            and self._alias_count / self._count > _allowed_alias_share(self._count)
        ):
            raise ValueError("document contains excessive aliasing")
        return _copy(value, len(self._open))


def _line_and_column(event: Event) -> tuple[int, int]:
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark else (0, 0)


def _allowed_alias_share(count: int) -> float:
    """The share of a document that may come from aliases: 99 % of a small one, 10 % of 4,000,000 values."""
    low, high = 400_000, 4_000_000
    share = (min(max(count, low), high) - low) / (high - low)
    return 0.99 - 0.89 * share


def _scalar(event: ScalarEvent) -> JSON:
    if event.tag is None:
        return resolve(event.value) if event.implicit[0] else event.value
    return event.value if event.tag == "!" else resolve_tagged(event.tag, event.value)


def json_number(value: JSON) -> JSON:
    """The number after Go has written it as JSON and read it back; refuse infinities and NaN.

    A whole float becomes an integer if it fits an int64, and an integer beyond int64 becomes a float.
    """
    if type(value) is int:
        return value if value in INT64 else float(value)
    if type(value) is not float:
        return value
    if not math.isfinite(value):
        raise ValueError("JSON has no such number; quote it if text is meant")
    return decode(float_text(value))


def _is_merge(event: ScalarEvent) -> bool:
    return event.value == MERGE_KEY and event.implicit[0]


def _merge(container: JSONObject, merged: set[str], value: JSON) -> None:
    sources = value[::-1] if isinstance(value, list) else [value]
    if not all(isinstance(source, dict) for source in sources):
        raise ValueError("map merge requires map or sequence of maps as the value")
    for source in sources:
        merged.update(source)
        container.update(source)


def _copy(value: JSON, depth: int) -> JSON:
    if not isinstance(value, dict | list):
        return value
    if depth >= MAXIMUM_DEPTH:
        raise ValueError(f"nested deeper than {MAXIMUM_DEPTH} levels")
    if isinstance(value, dict):
        return {key: _copy(item, depth + 1) for key, item in value.items()}
    return [_copy(item, depth + 1) for item in value]


def _read_error(error: YAMLError, raw: bytes) -> YamlReadError:
    if isinstance(error, ReaderError):
        before = raw[: error.position]
        column = len(before) - before.rfind(b"\n")
        return YamlReadError(f"{error.reason}: the text must be UTF-8", before.count(b"\n") + 1, column)
    if not isinstance(error, MarkedYAMLError):
        return YamlReadError(str(error))
    mark = error.problem_mark or error.context_mark
    problem = ": ".join(text for text in (error.context, error.problem) if text)
    if mark is None:
        return YamlReadError(problem)
    return YamlReadError(problem + _hint(raw, mark.line), mark.line + 1, mark.column + 1)


def _hint(raw: bytes, line_index: int) -> str:
    lines = raw.splitlines()
    line = lines[line_index] if line_index < len(lines) else b""
    indent = line[: len(line) - len(line.lstrip())]
    return " (YAML is indented by spaces, not tabs)" if b"\t" in indent else ""
