"""Strings: cel-go's extension, version 2, as Kubernetes has it; and ``jsonpatch.escapeKey``.

Sources: ``github.com/google/cel-go/ext/strings.go`` and ``k8s.io/apiserver/pkg/cel/library/jsonpatch.go``. Only the
expressions of mutations may call ``jsonpatch.escapeKey``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.cel.declarations import Library, Overload
from pratique.cel.errors import EvaluationError, NoSuchOverloadError
from pratique.cel.libraries.formatting import format_text
from pratique.cel.values import Value, to_text

if TYPE_CHECKING:
    from pratique.cel.activation import Frame


_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""The white space of Go's ``strings.TrimSpace``."""
_ESCAPES = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def require_types(kinds: tuple[type, ...], *values: Value) -> None:
    """Check the types of arguments. Raises NoSuchOverloadError if one has another type."""
    if any(type(value) is not kind for kind, value in zip(kinds, values, strict=True)):
        raise NoSuchOverloadError


def _char_at(_: Frame, text: Value, place: Value) -> str:
    require_types((str, int), text, place)
    if not 0 <= place <= len(text):
        raise EvaluationError(f"index out of range: {place}")
    return str(text[place : place + 1])


def index_of(text: str, part: str, start: int) -> int:
    """Find ``part`` from ``start`` on; -1 if there is none. Raises EvaluationError for a negative start."""
    if start < 0:
        raise EvaluationError(f"index out of range: {start}")
    if not part:
        return min(start, len(text))
    return text.find(part, start)


def last_index_of(text: str, part: str, start: int | None) -> int:
    """Find the last ``part`` that begins at ``start`` or before; -1 if there is none. Raises as :func:`index_of`."""
    if start is None:
        return _find_last(text, part)
    if start < 0:
        raise EvaluationError(f"index out of range: {start}")
    if not part:
        return min(start, len(text))
    return -1 if start >= len(text) else _find_last(text[: start + len(part)], part)


def _find_last(text: str, part: str) -> int:
    """Find the last occurrence in linear time; ``str.rfind`` may take quadratic time."""
    place = text[::-1].find(part[::-1])
    return -1 if place < 0 else len(text) - len(part) - place


def _change_case(frame: Frame, text: Value, *, upper: bool) -> str:
    require_types((str,), text)
    frame.add_work(len(text))
    encoded = text.encode()
    return str((encoded.upper() if upper else encoded.lower()).decode())


def _replace(frame: Frame, text: Value, old: Value, new: Value, limit: Value = -1) -> str:
    require_types((str, str, str, int), text, old, new, limit)
    count = text.count(old) if limit < 0 else min(text.count(old), limit)
    frame.add_work(len(text) + count * len(new))
    return str(text.replace(old, new, limit))


def _split(frame: Frame, text: Value, separator: Value, limit: Value = -1) -> list[str]:
    require_types((str, str, int), text, separator, limit)
    frame.add_work(len(text))
    if limit == 0:
        return []
    if not separator:
        return list(text) if limit < 0 or limit >= len(text) else [*text[: limit - 1], text[limit - 1 :]]
    return list(text.split(separator, limit - 1 if limit > 0 else -1))


def _join(_: Frame, items: Value, separator: Value = "") -> str:
    require_types((list, str), items, separator)
    if items and type(items[0]) is not str:
        raise NoSuchOverloadError
    for item in items:
        if type(item) is not str:
            raise EvaluationError(f"join: invalid input: {to_text(item)}")
    return str(separator.join(items))


def _substring(_: Frame, text: Value, start: Value, end: Value = None) -> str:
    require_types((str, int, int), text, start, len(text) if end is None and type(text) is str else end)
    stop = len(text) if end is None else end
    if end is not None and start > stop:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for place in (start, stop):
        if not 0 <= place <= len(text):
            raise EvaluationError(f"index out of range: {place}")
    return str(text[start:stop])


def _trim(_: Frame, text: Value) -> str:
    require_types((str,), text)
    return str(text.strip(_SPACE))


def _quote(_: Frame, text: Value) -> str:
    require_types((str,), text)
    return '"' + "".join(_ESCAPES.get(character, character) for character in text) + '"'


def _format(frame: Frame, text: Value, values: Value) -> str:
    require_types((str, list), text, values)
    return format_text(frame, text, values)


STRINGS = Library(
    overloads=(
        Overload("string_char_at_int", "string.charAt(int)", "string"),
        Overload("string_lower_ascii", "string.lowerAscii()", "string"),
        Overload("string_upper_ascii", "string.upperAscii()", "string"),
        Overload("string_replace_string_string", "string.replace(string,string)", "string"),
        Overload("string_replace_string_string_int", "string.replace(string,string,int)", "string"),
        Overload("string_split_string", "string.split(string)", "list<string>"),
        Overload("string_split_string_int", "string.split(string,int)", "list<string>"),
        Overload("string_substring_int", "string.substring(int)", "string"),
        Overload("string_substring_int_int", "string.substring(int,int)", "string"),
        Overload("string_trim", "string.trim()", "string"),
        Overload("string_format", "string.format(list<dyn>)", "string"),
        Overload("strings_quote", "strings.quote(string)", "string"),
        Overload("list_join", "list<string>.join()", "string"),
        Overload("list_join_string", "list<string>.join(string)", "string"),
    ),
    functions={
        "charAt": _char_at,
        "lowerAscii": lambda frame, text: _change_case(frame, text, upper=False),
        "upperAscii": lambda frame, text: _change_case(frame, text, upper=True),
        "replace": _replace,
        "split": _split,
        "join": _join,
        "substring": _substring,
        "trim": _trim,
        "strings.quote": _quote,
        "format": _format,
    },
)


def _escape_key(_: Frame, text: Value) -> str:
    require_types((str,), text)
    return str(text.replace("~", "~0").replace("/", "~1"))


JSON_PATCH = Library(
    overloads=(Overload("string_jsonpatch_escapeKey_string", "jsonpatch.escapeKey(string)", "string"),),
    functions={"jsonpatch.escapeKey": _escape_key},
)
