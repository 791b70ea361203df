"""YAML in the plain block style that manifests are written in, read without a YAML parser.

Most manifests are lines of ``key: value``, ``key:``, ``- value`` and ``- key: value``, with texts behind ``|``. Such
lines recur from document to document, so each is analysed once, and documents are put together from what their lines
mean. Whatever might mean something else to libyaml is left to it: anchors, aliases, tags, merge keys, directives, flow
style but ``{}`` and ``[]``, folded texts, escapes, scalars and keys of several lines, duplicate keys, tabs, carriage
returns, and characters beyond ASCII. So are all errors.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.yaml_values import YamlValue, json_number, key_text, read_values, resolve

MAXIMUM_BYTES = 1024 * 1024
"""Longer texts are left to libyaml's reader, which yields one document after another."""
_MAXIMUM_DEPTH = 100
"""Of mappings and lists; libyaml's reader takes more."""
_CACHED = 8192
"""How many beginnings of lines, and values, are cached: 4 MiB of each at most."""
_LONGEST_CACHED = 120
"""Characters. What is longer hardly recurs."""

_UNSURE_CHARACTER = pattern(r"[^\n -~]")
_KEY = r"[A-Za-z0-9_./][A-Za-z0-9_./-]{0,255}"
_DASHES = r"(?P<indent> *)(?P<dashes>(?:- +)*)"
_KEYED = pattern(rf"{_DASHES}(?:(?P<key>{_KEY})|\"(?P<double>{_KEY})\"|'(?P<single>{_KEY})')")
_ITEM = pattern(rf"{_DASHES}(?P<value>[^ ].*)")
_PLAIN = pattern(
    r"(?:-{1,2}[A-Za-z0-9]|[A-Za-z0-9_/.$(+~])"  # a beginning that cannot be taken for an indicator
    # A colon before a space, or at the end, would make it a key. Possessive, or a text that fails takes forever.
    r"(?:[!-9;-~]++| ++(?=[!-~])|:(?=[!-~]))*+"
)
_QUOTED = pattern(r"(?:\"([^\"\\]*)\"|'([^']*)')(?: +#.*)?")
_BLANK = pattern(r" *(?:#.*)?")
_START = "---"

_VALUE, _NESTED, _MAPPING, _LIST, _TEXT, _STRIPPED_TEXT, _BLANK_LINE, _START_LINE = range(8)
_KINDS = {"": _NESTED, "{}": _MAPPING, "[]": _LIST, "|": _TEXT, "|-": _STRIPPED_TEXT}


class _UnsureError(ValueError):
    """The text is left to libyaml."""


class _Beginning(NamedTuple):
    """What a line means up to its value."""

    kind: int
    """What the value is, or that there is no value; ``_VALUE`` if it is behind a key, and may be of any kind."""
    column: int = 0
    """The column of the first dash, or of the key if there is none."""
    dashes: tuple[int, ...] = ()
    """The columns of the dashes."""
    key_column: int = 0
    key: str | None = None
    """None for an item of a list."""
    value: JSON = None
    """That of an item."""


def read_yaml(raw: bytes, *, unique_keys: bool = False) -> Iterator[YamlValue]:
    """Yield the documents of a YAML text, as :func:`pratique.apimachinery.yaml_values.read_values` does, but faster.

    Raises:
        YamlReadError: the text is not YAML, or holds YAML that JSON cannot represent.
    """
    found = read_block_style(raw)
    return read_values(raw, unique_keys=unique_keys) if found is None else iter(found)


def read_block_style(raw: bytes) -> list[YamlValue] | None:
    """Read the documents of a text in the plain block style; None if it is not certain to be in that."""
    if len(raw) > MAXIMUM_BYTES or not raw.isascii():
        return None
    text = raw.decode("ascii")
    if _UNSURE_CHARACTER.search(text):
        return None
    try:
        return _BlockComposer(text.split("\n")).documents()
    except ValueError:  # also of what libyaml's reader would refuse, which reports it
        return None


class _BlockComposer:
    """Puts documents together from the lines of a text.

    Much is inlined, because reading dominates a review of many files, and function calls dominate reading.
    """

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._next = 0
        """The index of the line after the current one."""

    def documents(self) -> list[YamlValue]:
        found = []
        while self._next < len(self._lines):
            root, line = self._document()
            if root is not None:
                found.append(YamlValue(root, line))
        return found

    def _document(self) -> tuple[JSON, int]:  # noqa: C901, PLR0912 - inlined, see the class
        """Put the next document together, up to the line that begins another; None if it is empty."""
        lines, root, first_line = self._lines, None, 0
        open_: list[tuple[int, JSON]] = []  # the columns of mappings and lists, and these, from the outermost
        nested: tuple[int, JSON, str] | None = None  # the column, mapping and key whose value may come below
        while self._next < len(lines):
            beginning, colon, written = lines[self._next].partition(": ")
            self._next += 1
            analyse = _beginning if len(beginning) <= _LONGEST_CACHED else _analyse
            kind, column, dashes, key_column, key, value = analyse(beginning, bool(colon))
            if kind == _BLANK_LINE:
                continue
            if kind == _START_LINE:
                break
            if colon:
                kind, value = _value(written) if len(written) <= _LONGEST_CACHED else _analyse_value(written)
            container: JSON = None
            if nested is not None:
                above, mapping, name = nested
                nested = None
                if column > above or (dashes and column == above):
                    mapping[name] = container = [] if dashes else {}
                    open_.append((column, container))
            elif root is None:
                if column:
                    raise _UnsureError
                root = container = [] if dashes else {}
                first_line = self._next
                open_.append((0, container))
            if container is None:
                container = _close(open_, column, is_item=bool(dashes))
            if dashes:
                container = _open_inner(open_, container, dashes, key_column if key is not None else None)
            if kind == _NESTED:
                nested = (key_column, container, key or "")
            elif kind != _VALUE:
                value = self._special(kind, dashes[-1] if key is None else key_column)
            if key is None:
                container.append(value)
            elif key in container:
                raise _UnsureError
            else:
                container[key] = value
        return root, first_line

    def _special(self, kind: int, parent_column: int) -> JSON:
        if kind == _MAPPING:
            return {}
        return [] if kind == _LIST else self._text(parent_column, strip=kind == _STRIPPED_TEXT)

    def _text(self, parent_column: int, *, strip: bool) -> str:
        """Read the text below a ``|``."""
        lines, begun = self._lines, self._next
        first = lines[begun] if begun < len(lines) else ""
        margin = " " * (len(first) - len(first.lstrip(" ")))
        if not first.strip(" ") or len(margin) <= parent_column:
            raise _UnsureError
        end = begun
        while end < len(lines) and (not lines[end] or lines[end].startswith(margin)):
            end += 1
        content = lines[begun:end]
        if end == len(lines) and content[-1]:
            raise _UnsureError  # the text lacks the last line feed
        if end < len(lines) and lines[end].lstrip(" ")[:1] in {"", "#"}:
            raise _UnsureError
        self._next = end
        while not content[-1]:
            content.pop()
        if any(line.isspace() for line in content):
            raise _UnsureError
        text = "\n".join([line[len(margin) :] for line in content])
        return text if strip else text + "\n"


def _close(open_: list[tuple[int, JSON]], column: int, *, is_item: bool) -> JSON:
    """Close what ends before a line in a column, and return the mapping or list that the line belongs to."""
    while open_ and open_[-1][0] > column:
        open_.pop()
    if open_ and not is_item and type(open_[-1][1]) is list:
        open_.pop()  # a list may be in the same column as the key that it belongs to
    if not open_ or open_[-1][0] != column:
        raise _UnsureError
    container = open_[-1][1]
    if type(container) is not (list if is_item else dict):
        raise _UnsureError
    return container


def _open_inner(
    open_: list[tuple[int, JSON]], outer: JSON, dashes: tuple[int, ...], key_column: int | None
) -> JSON:
    """Open the lists of further dashes on the same line, and the mapping of a key behind them."""
    if len(open_) + len(dashes) > _MAXIMUM_DEPTH:
        raise _UnsureError
    container = outer
    for column in dashes[1:]:
        inner: JSON = []
        container.append(inner)
        open_.append((column, inner))
        container = inner
    if key_column is not None:
        inner = {}
        container.append(inner)
        open_.append((key_column, inner))
        container = inner
    return container


def _analyse(line: str, has_value: bool) -> _Beginning:  # noqa: FBT001 - called for every line
    """Find out what a line means that is not in a text: up to the colon, if there is a value behind that."""
    if _BLANK.fullmatch(line):
        if has_value and "#" not in line:
            raise _UnsureError
        return _Beginning(_BLANK_LINE)
    if line == _START and not has_value:
        return _Beginning(_START_LINE)
    found = (
        _KEYED.fullmatch(line if has_value else line.removesuffix(":"))
        if has_value or line[-1] == ":"
        else None
    )
    if found is None:
        return _analyse_item(line, has_value=has_value)
    column, dashes = _dashes(found)
    plain = found["key"]
    key = found["double"] or found["single"] if plain is None else key_text(resolve(plain))
    # The same few names recur in all documents: interning stores each of them once.
    return _Beginning(
        _VALUE if has_value else _NESTED, column, dashes, found.end("dashes"), sys.intern(key or "")
    )


def _analyse_item(line: str, *, has_value: bool) -> _Beginning:
    found = _ITEM.fullmatch(line)
    if found is None or has_value or not found["dashes"]:
        raise _UnsureError
    kind, value = _analyse_value(found["value"])
    if kind == _NESTED:
        raise _UnsureError
    return _Beginning(kind, *_dashes(found), found.end("dashes"), None, value)


def _dashes(found: re.Match[str]) -> tuple[int, tuple[int, ...]]:
    column, end = len(found["indent"]), found.end("dashes")
    if end > 2 * _MAXIMUM_DEPTH:
        raise _UnsureError
    return column, tuple(column + dash.start() for dash in re.finditer("-", found["dashes"]))


def _analyse_value(written: str) -> tuple[int, JSON]:
    """Find out what is behind a key or a dash."""
    written = written.lstrip(" ")
    if written[:1] in {'"', "'"}:
        quoted = _QUOTED.fullmatch(written)
        if quoted is None:
            raise _UnsureError
        return _VALUE, quoted[1] if quoted[2] is None else quoted[2]
    if "#" in written:
        written = f" {written}".partition(" #")[0].strip(" ")
    kind = _KINDS.get(written)
    if kind is not None:
        return kind, None
    if not _PLAIN.fullmatch(written):
        raise _UnsureError
    return _VALUE, json_number(resolve(written))


_beginning = functools.lru_cache(_CACHED)(_analyse)
_value = functools.lru_cache(_CACHED)(_analyse_value)
