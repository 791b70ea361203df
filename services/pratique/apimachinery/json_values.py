"""JSON values and documents, and how Go's ``encoding/json`` writes them."""

from __future__ import annotations

import decimal
from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec
import re2  # type: ignore[import-untyped] # it has no type stubs

INT64 = range(-(2**63), 2**63)
"""What Go holds as an integer."""

OUT_OF_RANGE = "Number out of range"
"""What msgspec says of a number that is no float64."""

_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_INT64_DIGITS = b"0" * 19
"""What no int64 is longer than; anything shorter fits."""
_SAMPLING_STEP = 4
_SAMPLED_DIGITS = b"0" * (19 // _SAMPLING_STEP)
"""What is seen of 19 digits by who looks at every fourth byte."""

_SMALLEST_PLAIN, _LARGEST_PLAIN = 1e-6, 1e21
"""Between these Go writes digits alone; below and from there on it writes an exponent."""

_FLOAT = re2.compile(rb"[:\[,]-?[0-9]+(?:\.[0-9]+(?:e[-+]?[0-9]+)?|e[-+]?[0-9]+)[,\]}]")
"""A float where a value of compact JSON can stand. 2 us for a Pod, half of what Python's own patterns would take."""


def may_hold_big_integers(raw: bytes | str) -> bool:
    """True where a text has so many digits in a row that they may be no int64."""
    text = raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else raw
    return _SAMPLED_DIGITS in text[::_SAMPLING_STEP].translate(_DIGITS) and _INT64_DIGITS in text.translate(
        _DIGITS
    )


def big_integers_as_floats(value: JSON) -> JSON:
    """Make floats of the integers that are no int64. Lists and dicts are changed in place.

    Raises:
        msgspec.ValidationError: one is no float64, either.
    """
    if type(value) is int:
        return _as_go_number(value)
    pending = [value]
    while pending:
        container = pending.pop()
        if isinstance(container, dict | list):
            for key, item in container.items() if isinstance(container, dict) else enumerate(container):
                if type(item) is int:
                    if item not in INT64:
                        container[key] = _as_go_number(item)
                elif isinstance(item, dict | list):
                    pending.append(item)
    return value


def _as_go_number(value: int) -> int | float:
    if value in INT64:
        return value
    try:
        return float(value)
    except OverflowError:
        raise msgspec.ValidationError(OUT_OF_RANGE) from None


def may_hold_floats(written: bytes) -> bool:
    """True where compact JSON text of a list or an object may hold a float; a text in it can look like one."""
    return _FLOAT.search(written) is not None


def with_go_floats(value: JSON) -> JSON:
    """The same value, in which every float is the text that Go writes for it. Nothing is changed in place."""
    if type(value) is float:
        return msgspec.Raw(float_text(value).encode())
    if isinstance(value, dict):
        return {name: with_go_floats(item) for name, item in value.items()}
    return [with_go_floats(item) for item in value] if isinstance(value, list | tuple) else value


def float_text(value: float) -> str:
    """Write a finite number as Go's ``encoding/json`` does: ``1`` for 1.0, ``1e+21``, and ``1e-7``."""
    if value == 0 or _SMALLEST_PLAIN <= abs(value) < _LARGEST_PLAIN:
        plain = format(decimal.Decimal(repr(value)), "f")
        return plain.removesuffix(".0")
    # Python writes such numbers with an exponent, too; Go has one digit less where it is negative and has one.
    return repr(value).replace("e-0", "e-")


JSON: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, list[JSON] or dict[str, JSON].

``Any`` on purpose: admission code walks objects whose schema it does not own, and a recursive union makes every
step of such a walk a cast.
"""

JSONObject: TypeAlias = dict[str, Any]
"""A JSON object."""

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


def decode(raw: bytes | str) -> JSON:
    """Parse JSON text. An integer that is no int64 becomes a float, as in the API server.

    Raises:
        msgspec.DecodeError: it is not JSON; as a ``ValidationError`` where a number is no float64.
    """
    value = _decoder.decode(raw)
    return big_integers_as_floats(value) if may_hold_big_integers(raw) else value


def encode(value: JSON) -> bytes:
    """Write a JSON value as compact UTF-8 bytes, members in their own order, floats as Go writes them."""
    written = _encoder.encode(value)
    may = isinstance(value, float) or may_hold_floats(written)
    return _encoder.encode(with_go_floats(value)) if may else written


class Document:
    """One JSON value that is parsed and encoded at most once each, and only when someone needs it.

    A document is a value: whoever wants another one makes a new document and leaves ``data`` as it is.
    """

    __slots__ = ("_data", "_parsed", "_raw")

    def __init__(self, raw: bytes | None, data: JSON = None, *, parsed: bool = False) -> None:
        """Use :meth:`from_raw` or :meth:`from_data`."""
        self._raw = raw
        self._data = data
        self._parsed = parsed

    @classmethod
    def from_raw(cls, raw: bytes) -> Document:
        """Hold JSON text; empty bytes and ``null`` are the null document."""
        return NULL if not raw or raw == b"null" else cls(raw)

    @classmethod
    def from_data(cls, data: JSON) -> Document:
        """Hold parsed JSON; None is the null document."""
        return NULL if data is None else cls(None, data, parsed=True)

    @property
    def is_null(self) -> bool:
        """True where there is no object, as on DELETE."""
        return self._raw is None and not (self._parsed and self._data is not None)

    @property
    def raw(self) -> bytes:
        """The JSON text, empty where the document is null."""
        if self._raw is None:
            if self._data is None:
                return b""
            self._raw = encode(self._data)
        return self._raw

    @property
    def data(self) -> JSON:
        """The parsed value, None where the document is null. Not to be changed in place.

        Raises:
            msgspec.DecodeError: the bytes are not JSON.
        """
        if not self._parsed:
            self._data = decode(self._raw) if self._raw else None
            self._parsed = True
        return self._data

    def copy_data(self) -> JSON:
        """Parse the value anew, for a caller that is going to change it in place."""
        return decode(self.raw) if not self.is_null else None

    def __eq__(self, other: object) -> bool:
        """Equal where the values are equal, whatever the order of members."""
        return isinstance(other, Document) and bool(self.data == other.data)

    def __hash__(self) -> int:
        """Documents are compared, never kept in sets."""
        raise TypeError("a Document is not hashable")

    def __repr__(self) -> str:
        """Never shows content: admission objects are secrets."""
        return "Document(null)" if self.is_null else "Document(…)"


NULL = Document(None, None, parsed=True)
"""The document of no object."""


def member(value: JSON, *path: str | int) -> JSON:
    """Walk into nested objects and arrays; None where any step is missing or of another type."""
    for step in path:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, list):
            value = value[step] if -len(value) <= step < len(value) else None
        else:
            return None
    return value


def json_type(value: JSON) -> str:
    """Name the JSON type of a value for a person: ``a list``."""
    if value is None:
        return "null"
    return _JSON_TYPES.get(type(value), "a number")


_JSON_TYPES = {bool: "a boolean", str: "a string", list: "a list", dict: "a mapping"}


_HTML = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
"""What Go escapes, so that the text can stand in a web page."""


def go_json(value: JSON) -> str:
    """Write a value; members stay in their own order."""
    return encode(value).decode().translate(_HTML)


def escape(token: str) -> str:
    """Write one member's name as a part of a pointer."""
    return token.replace("~", "~0").replace("/", "~1") if "~" in token or "/" in token else token


def unescape(token: str) -> str:
    """Read one part of a pointer; a ``~`` that escapes nothing stands for itself."""
    return token.replace("~1", "/").replace("~0", "~") if "~" in token else token


def pointer(path: Iterable[str | int]) -> str:
    """Write a path, for example ``("metadata", "labels", "a/b")`` as ``/metadata/labels/a~1b``."""
    return "".join(f"/{escape(step) if isinstance(step, str) else step}" for step in path)


_MAX_VISITED = 100
"""Values among which one is looked for that was measured before. 100 take 40 microseconds. A value that doubles by
being copied into itself has two that are new each time; the rest of its megabytes is in one that is known."""
_MAX_NESTED = 100
"""Measured values within one another. What is in more of them is written all the same, for it may be too deep to be."""


class TextSizes:
    """The sizes of values that do not change any more."""

    def __init__(self) -> None:
        """Know none."""
        # By identity, with size, and how many measured ones are within one another in it. What is measured is kept, so
        # that nothing else has its identity.
        self._known: dict[int, tuple[JSON, int, int]] = {}

    def of(self, value: JSON) -> int:
        """Measure a value, in bytes. It must not be changed afterwards, nor what it holds.

        Raises:
            RecursionError: it is too deep to be written.
        """
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        size, nested = (self._sum(value) if self._known else None) or (0, 0)
        if not size or nested > _MAX_NESTED:
            size = _text_size(value)
        self._known[id(value)] = (value, size, nested)
        return size

    def _sum(self, value: JSON) -> tuple[int, int] | None:
        """Add up the sizes of what a value holds; None where that is too much to look at."""
        size, nested, left = 0, 0, [value]
        for _ in range(_MAX_VISITED):
            if not left:
                return size, nested
            one = left.pop()
            known = self._known.get(id(one))
            if known is not None:
                size += known[1]
                nested = max(nested, known[2] + 1)
            elif not isinstance(one, dict | list):
                size += _text_size(one)
            elif len(one) > _MAX_VISITED:
                return None
            else:
                # Brackets, commas, and names with their colons.
                size += 2 + max(0, len(one) - 1)
                if isinstance(one, dict):
                    size += sum(_text_size(name) + 1 for name in one)
                left.extend(one.values() if isinstance(one, dict) else one)
        return None


def _text_size(value: JSON) -> int:
    raw = encode(value)
    # Go writes "<", ">" and "&" with six bytes (\u003c) in place of one, and U+2028 and U+2029 with six in place of
    # three. To look for them takes far less time than to count them, and most texts have none.
    short = sum(raw.count(mark) for mark in (b"<", b">", b"&") if mark in raw)
    long = 0 if raw.isascii() else raw.count(b"\xe2\x80\xa8") + raw.count(b"\xe2\x80\xa9")
    return len(raw) + 5 * short + 3 * long
