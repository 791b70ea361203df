"""JSON values and documents, decoded and encoded as Go's ``encoding/json`` does."""

from __future__ import annotations

import decimal
from collections.abc import Iterable
from typing import Any, Protocol, TypeAlias

import msgspec
import re2  # type: ignore[import-untyped] # it has no type stubs

INT64 = range(-(2**63), 2**63)
"""The range of Go's int64."""

OUT_OF_RANGE = "Number out of range"
"""msgspec's message for a number beyond float64."""

_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_INT64_DIGITS = b"0" * 19
"""An int64 has at most 19 digits; any shorter integer fits."""
_SAMPLING_STEP = 4
_SAMPLED_DIGITS = b"0" * (19 // _SAMPLING_STEP)
"""What every fourth byte shows of 19 digits."""

_SMALLEST_PLAIN, _LARGEST_PLAIN = 1e-6, 1e21
"""From the first up to the second, Go writes no exponent."""

_UNLIKE_GO = re2.compile(rb"[:\[,]-?(?:[0-9]+\.0|0\.000000[0-9]+|[0-9]+(?:\.[0-9]+)?e[-+]?[0-9]+)[,\]}]")
"""A float at the place of a value in compact JSON that Go writes in another way than msgspec: a whole one, one below
``_SMALLEST_PLAIN``, or one with an exponent. All others are the shortest digits that mean the number, in both. Takes
2 µs for a Pod, half the time of Python's ``re``."""
_LONG_BYTES = 64 * 1024
_NOT_BESIDE_NUMBERS = bytes(set(range(256)) - set(b'0123456789+-.e:,"[]{}'))
"""What neither numbers nor their neighbours consist of. Dropping it from a long text halves the time of the search, and
leaves every float as it is."""


def may_hold_big_integers(raw: bytes | str) -> bool:
    """Tell whether a text has 19 or more digits in a row, which may not fit an int64."""
    text = raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else raw
    return _SAMPLED_DIGITS in text[::_SAMPLING_STEP].translate(_DIGITS) and _INT64_DIGITS in text.translate(
        _DIGITS
    )


def big_integers_as_floats(value: JSON) -> JSON:
    """Turn integers beyond int64 into floats, in place in lists and dicts.

    Raises:
        msgspec.ValidationError: one is beyond float64 too.
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


def may_differ_from_go(written: bytes) -> bool:
    """Tell whether compact JSON of a list or object may hold a float that Go writes in another way.

    A string in it can look like one.
    """
    if len(written) > _LONG_BYTES:
        written = written.translate(None, _NOT_BESIDE_NUMBERS)
    return _UNLIKE_GO.search(written) is not None


def with_go_floats(value: JSON) -> JSON:
    """A copy of a value with every float as the raw text that Go writes for it."""
    if type(value) is float:
        return msgspec.Raw(float_text(value).encode())
    if isinstance(value, dict):
        return {name: with_go_floats(item) for name, item in value.items()}
    return [with_go_floats(item) for item in value] if isinstance(value, list | tuple) else value


def float_text(value: float) -> str:
    """Write a finite float as Go's ``encoding/json`` does: ``1`` for 1.0, ``1e+21``, and ``1e-7``."""
    if value == 0 or _SMALLEST_PLAIN <= abs(value) < _LARGEST_PLAIN:
        plain = format(decimal.Decimal(repr(value)), "f")
        return plain.removesuffix(".0")
    # Python uses an exponent here too, but pads a negative one-digit exponent to two digits.
    return repr(value).replace("e-0", "e-")


JSON: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, list[JSON] or dict[str, JSON].

``Any`` on purpose: admission code walks objects whose schema it does not own, and with a recursive union every step
would need a cast.
"""

JSONObject: TypeAlias = dict[str, Any]
"""A JSON object."""

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


def decode(raw: bytes | str) -> JSON:
    """Parse JSON text. An integer beyond int64 becomes a float, as in the API server.

    Raises:
        msgspec.DecodeError: it is not JSON; a ``ValidationError`` if a number is beyond float64.
    """
    value = _decoder.decode(raw)
    return big_integers_as_floats(value) if may_hold_big_integers(raw) else value


def encode(value: JSON) -> bytes:
    """Encode a JSON value as compact UTF-8, members in their order, floats as Go writes them."""
    written = _encoder.encode(value)
    may = isinstance(value, float) or may_differ_from_go(written)
    return _encoder.encode(with_go_floats(value)) if may else written


MIN_PROVED_BYTES = 32 * 1024
"""Shorter texts have no proof of their checks, which take as long as making and verifying one."""


class TextChecks(Protocol):
    """Proves to other services that a text was checked."""

    def of_checked(self, raw: bytes) -> bytes:
        """Return the proof for a text that passed the checks; empty if there is none."""

    def of_encoded(self, raw: bytes, *, shallow: bool = False) -> bytes:
        """Return the proof for a text that was encoded in this process; empty if there is none.

        One that is ``shallow`` has certainly no more levels than allowed.
        """


class DeferredCheck(Protocol):
    """A check of a text that the service that parses it may do."""

    passed: bool
    """Whether it was done, here or there."""

    def run(self) -> None:
        """Check the text here.

        Raises:
            ReviewError: it is not allowed.
        """


class Document:
    """A JSON value that is parsed and encoded lazily, each at most once.

    A document is immutable: to change it, make a new document and leave ``data`` alone.
    """

    __slots__ = (
        "_check_digest",
        "_checks",
        "_converted",
        "_data",
        "_deferred",
        "_encoded",
        "_parsed",
        "_raw",
        "_shallow",
    )

    def __init__(self, raw: bytes | None, data: JSON = None, *, parsed: bool = False) -> None:
        """Use :meth:`from_raw` or :meth:`from_data`."""
        self._raw = raw
        self._data = data
        self._parsed = parsed
        self._encoded = raw is None
        self._checks: TextChecks | None = None
        self._check_digest: bytes | None = None
        self._deferred: DeferredCheck | None = None
        self._shallow = raw is not None
        self._converted: dict[str, Document | str] | None = None

    @classmethod
    def from_raw(cls, raw: bytes) -> Document:
        """Make a document of JSON text; empty bytes and ``null`` are the null document."""
        return NULL if not raw or raw == b"null" else cls(raw)

    @classmethod
    def from_data(cls, data: JSON, *, shallow: bool = False) -> Document:
        """Make a document of parsed JSON; None is the null document."""
        if data is None:
            return NULL
        document = cls(None, data, parsed=True)
        document._shallow = shallow
        return document

    @property
    def is_shallow(self) -> bool:
        """Whether it has certainly no more levels than a text may have: it is such a text, or was made of one."""
        return self._shallow

    @property
    def is_null(self) -> bool:
        """True for the null document, which stands for no object, as on DELETE."""
        return self._raw is None and not (self._parsed and self._data is not None)

    @property
    def raw(self) -> bytes:
        """The JSON text; empty for the null document.

        Raises:
            ReviewError: its check was deferred, and it is not allowed.
        """
        if self._deferred is not None:
            self.check()
        if self._raw is None:
            if self._data is None:
                return b""
            self._raw = encode(self._data)
        return self._raw

    @property
    def encoded(self) -> bytes:
        """The value as :func:`encode` writes it. Unlike :attr:`raw`, it is not a text as somebody else wrote it."""
        return (self.raw or b"null") if self._encoded else encode(self.data)

    @property
    def data(self) -> JSON:
        """The parsed value; None for the null document. Do not change it in place.

        Raises:
            msgspec.DecodeError: the text is not JSON.
            ReviewError: its check was deferred, and it is not allowed.
        """
        if not self._parsed:
            if self._deferred is not None:
                self.check()
            self._data = decode(self._raw) if self._raw else None
            self._parsed = True
        return self._data

    @property
    def is_unchecked(self) -> bool:
        """Whether the check of the text was deferred, and nobody has done it yet."""
        return self._deferred is not None and not self._deferred.passed

    @property
    def unchecked_raw(self) -> bytes:
        """The JSON text, checked or not, for a service that checks what it gets."""
        return self._raw or b"" if self.is_unchecked else self.raw

    @property
    def received_bytes(self) -> int:
        """The length of the JSON text, checked or not; 0 if the value was parsed elsewhere or made here."""
        return 0 if self._encoded else len(self._raw or b"")

    def defer(self, check: DeferredCheck) -> Document:
        """Leave the check of this text to the service that parses it; return this document.

        Reading it here checks it.
        """
        self._deferred = check
        return self

    def check(self) -> None:
        """Do a deferred check now, unless it was done.

        Raises:
            ReviewError: the text is not allowed.
        """
        if self._deferred is not None and not self._deferred.passed:
            self._deferred.run()

    def checked_elsewhere(self) -> None:
        """Record that a service has done a deferred check."""
        if self._deferred is not None:
            self._deferred.passed = True

    def checked_by(self, checks: TextChecks | None) -> Document:
        """Let ``checks`` prove to other services that this text was checked; return this document."""
        if self is not NULL:
            self._checks = checks
        return self

    def after(self, before: Document) -> Document:
        """Let this document be proved as the one that it was made from; return this document."""
        return self.checked_by(before._checks)

    @property
    def check_digest(self) -> bytes:
        """The proof that the text was checked, computed once; empty if there is none."""
        if self.is_unchecked:
            return b""
        if self._check_digest is None:
            checks, raw = self._checks, self.raw
            if checks is None or len(raw) < MIN_PROVED_BYTES:
                self._check_digest = b""
            else:
                self._check_digest = (
                    checks.of_encoded(raw, shallow=self._shallow) if self._encoded else checks.of_checked(raw)
                )
        return self._check_digest

    def converted_to(self, api_version: str) -> Document | str | None:
        """What a conversion webhook made of it, or why it made nothing; None if it has not been asked."""
        return None if self._converted is None else self._converted.get(api_version)

    def remember_conversion(self, api_version: str, result: Document | str) -> None:
        """Keep the result of a conversion webhook, so that it is asked once: the object, or the error's text."""
        self._converted = {**(self._converted or {}), api_version: result}

    def copy_data(self) -> JSON:
        """A fresh copy of the value, which the caller may change in place."""
        return decode(self.raw) if not self.is_null else None

    def __eq__(self, other: object) -> bool:
        """Compare values, ignoring the order of members."""
        return isinstance(other, Document) and bool(self.data == other.data)

    def __hash__(self) -> int:
        """Refuse: documents hold mutable data."""
        raise TypeError("a Document is not hashable")

    def __repr__(self) -> str:
        """Reveal no content: admission objects may be Secrets."""
        return "Document(null)" if self.is_null else "Document(…)"


NULL = Document(None, None, parsed=True)
"""The null document: no object."""


def member(value: JSON, *path: str | int) -> JSON:
    """Walk into nested objects and arrays; None if any step is missing or meets another type."""
    for step in path:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, list):
            value = value[step] if -len(value) <= step < len(value) else None
        else:
            return None
    return value


def mapping_at(value: JSON, *path: str) -> JSONObject:
    """The mapping at a path; empty if there is none."""
    found = member(value, *path)
    return found if isinstance(found, dict) else {}


def list_at(value: JSON, *path: str) -> list[JSON]:
    """The list at a path; empty if there is none."""
    found = member(value, *path)
    return found if isinstance(found, list) else []


def json_type(value: JSON) -> str:
    """The type of a JSON value in words for people: ``a list``."""
    if value is None:
        return "null"
    return _JSON_TYPES.get(type(value), "a number")


_JSON_TYPES = {bool: "a boolean", str: "a string", list: "a list", dict: "a mapping"}


HTML_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
"""The characters that Go escapes so that JSON is safe in HTML."""


def go_json(value: JSON) -> str:
    """Encode a value as ``json.Marshal`` does, HTML escapes included; members keep their order."""
    return encode(value).decode().translate(HTML_ESCAPES)


def with_sorted_names(value: JSON) -> JSON:
    """Return a value whose objects have their members in the order of their names, as Go encodes a map."""
    if isinstance(value, dict):
        return {name: with_sorted_names(member) for name, member in sorted(value.items())}
    return [with_sorted_names(item) for item in value] if isinstance(value, list) else value


_sorting_encoder = msgspec.json.Encoder(order="deterministic")


def sorted_text(value: JSON) -> bytes:
    """The text of a value with sorted members: equal values have the same, so that it is looked up in sets and maps."""
    return _sorting_encoder.encode(value)


def split_duplicates(values: Iterable[JSON]) -> tuple[list[JSON], list[JSON]]:
    """The first of each value, and the others that are equal to one of those.

    Comparing each value with all before it would take hours for the most that an object can have.
    """
    distinct: dict[bytes, JSON] = {}
    duplicates: list[JSON] = []
    for value in values:
        text = sorted_text(value)
        if text in distinct:
            duplicates.append(value)
        else:
            distinct[text] = value
    return list(distinct.values()), duplicates


def escape(token: str) -> str:
    """Escape a member name as a token of a JSON Pointer."""
    return token.replace("~", "~0").replace("/", "~1") if "~" in token or "/" in token else token


def unescape(token: str) -> str:
    """Unescape a token of a JSON Pointer; a ``~`` that escapes nothing stays."""
    return token.replace("~1", "/").replace("~0", "~") if "~" in token else token


def pointer(path: Iterable[str | int]) -> str:
    """Write a path as a JSON Pointer: ``("metadata", "labels", "a/b")`` becomes ``/metadata/labels/a~1b``."""
    return "".join(f"/{escape(step) if isinstance(step, str) else step}" for step in path)


_MAX_VISITED = 100
"""How many values to visit in search of measured ones, 40 microseconds for 100. A value that doubles by being
copied into itself has two new values each time; the rest of its megabytes is in one that was measured."""
_MAX_NESTED = 100
"""The maximum nesting of measured values. A deeper value is encoded in any case, which fails if it is too deep."""


class TextSizes:
    """Encoded sizes of values, remembered by identity, so measuring a value that holds measured ones is cheap."""

    def __init__(self) -> None:
        """Start without measured values."""
        # By identity: the value, its size, and how deep measured values nest in it. The value is referenced so that no
        # other object gets its identity.
        self._known: dict[int, tuple[JSON, int, int]] = {}

    def size_of(self, value: JSON) -> int:
        """The size of a value as Go encodes it, in bytes. Neither it nor its parts may change afterwards.

        Raises:
            RecursionError: it is too deep to be encoded.
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
        """Add up the sizes of a value's parts, and their nesting; None if there are too many parts to visit."""
        size, nested, left = 0, 0, [value]
        for _ in range(_MAX_VISITED):
            if not left:
                return size, nested
            part = left.pop()
            known = self._known.get(id(part))
            if known is not None:
                size += known[1]
                nested = max(nested, known[2] + 1)
            elif not isinstance(part, dict | list):
                size += _text_size(part)
            elif len(part) > _MAX_VISITED:
                return None
            else:
                # Brackets, commas, and member names with their colons.
                size += 2 + max(0, len(part) - 1)
                if isinstance(part, dict):
                    size += sum(_text_size(name) + 1 for name in part)
                left.extend(part.values() if isinstance(part, dict) else part)
        return None


def _text_size(value: JSON) -> int:
    raw = encode(value)
    # Go writes "<", ">" and "&" as six bytes (\u003c) instead of one, and U+2028 and U+2029 as six instead of three.
    # Looking for them is far cheaper than counting them, and most texts have none.
    short = sum(raw.count(mark) for mark in (b"<", b">", b"&") if mark in raw)
    long = 0 if raw.isascii() else raw.count(b"\xe2\x80\xa8") + raw.count(b"\xe2\x80\xa9")
    return len(raw) + 5 * short + 3 * long
