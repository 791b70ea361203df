"""JSON values, and documents that are held as bytes, as data, or both."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from pratique.json_numbers import may_hold_floats, may_hold_long, with_floats, with_go_floats

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
    return with_floats(value) if may_hold_long(raw) else value


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
