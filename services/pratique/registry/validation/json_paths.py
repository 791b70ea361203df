"""JSONPath as kubectl and API servers read it, to tell what is no path.

Source: ``k8s.io/client-go/util/jsonpath/parser.go``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from pratique.apimachinery.errors import PratiqueError
from pratique.apimachinery.patterns import pattern


class JSONPathError(PratiqueError):
    """A text is no JSONPath."""


def check_json_path(template: str) -> None:
    """Check a template, whose paths are in braces.

    Raises:
        JSONPathError: a path in it is none; the text is kubectl's.
    """
    _Parser(template).parse()


_END = ""
"""The character after the last one."""
_DICT_KEY = pattern(r"'([^']*)'")
_SLICE = pattern(r"(-?[0-9]*)(:-?[0-9]*)?(:-?[0-9]*)?")
_COMPARISON = pattern(r"([^!<>=]+)([!<>=]+)(.+?)")
_NUMBER = pattern(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_TERMINATORS = frozenset({_END, " ", "\t", "\r", "\n", ".", ",", "[", "]", "$", "@", "{", "}"})


class _Parser:
    """Reads a template from left to right; of the tree, it knows whether the last node is ``..``."""

    def __init__(self, template: str) -> None:
        self._text = template
        self._at = self._start = 0
        self._is_after_descent = False

    def parse(self) -> None:
        opening = self._text.find("{")
        while opening >= 0:
            self._at = self._start = opening + 1
            self._is_after_descent = False
            self._parse_action()
            opening = self._text.find("{", self._at)

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        character = self._peek()
        self._at += len(character)
        return character

    def _take(self) -> str:
        """The text since the last one that was taken."""
        taken = self._text[self._start : self._at]
        self._start = self._at
        return taken

    def _parse_action(self) -> None:
        """Read until the brace that closes the path."""
        while not self._text.startswith("}", self._at):
            if self._text.startswith("[?(", self._at):
                self._parse_filter()
            elif self._text.startswith("..", self._at):
                self._parse_descent()
                continue
            else:
                character = self._next()
                if character in {" ", "@", "$"}:
                    self._take()
                    continue
                self._parse_node(character)
            self._is_after_descent = False
        self._at += 1
        self._take()

    def _parse_node(self, character: str) -> None:
        if character in {_END, "\r", "\n"}:
            raise JSONPathError("unclosed action")
        if character == "[":
            self._parse_array()
        elif character in {'"', "'"}:
            self._parse_quote(character)
        elif character == ".":
            self._parse_field()
        elif character in {"+", "-"} or character.isdecimal():
            self._parse_number()
        elif character == "_" or character.isalpha():
            while self._peek() not in _TERMINATORS:
                self._next()
            self._take()
        else:
            shown = f" '{character}'" if character.isprintable() else ""
            raise JSONPathError(f"unrecognized character in action: U+{ord(character):04X}{shown}")

    def _parse_descent(self) -> None:
        if self._is_after_descent:
            raise JSONPathError("invalid multiple recursive descent")
        self._at += 2
        self._take()
        following = self._peek()
        self._is_after_descent = not (following == "_" or following.isalpha() or following.isdecimal())
        if not self._is_after_descent:
            self._parse_field()

    def _parse_field(self) -> None:
        self._take()
        while self._peek() not in _TERMINATORS:
            if self._next() == "\\":
                self._next()
        self._take()

    def _parse_number(self) -> None:
        while self._peek() == "." or self._peek().isdecimal():
            self._next()
        value = self._take()
        if not _NUMBER.fullmatch(value) or math.isinf(float(value)):
            raise JSONPathError(f"cannot parse number {value}")

    def _parse_array(self) -> None:
        while (character := self._next()) != "]":
            if character in {_END, "\n"}:
                raise JSONPathError("unterminated array")
        text = self._take()[1:-1]
        parts = text.split(",")
        if len(parts) > 1:
            for part in parts:
                _Parser(f"{{[{part.strip(' ')}]}}").parse()
        elif key := _DICT_KEY.fullmatch(text):
            _Parser(f"{{.{key[1]}}}").parse()
        elif text != "*":
            _check_slice(text)

    def _parse_filter(self) -> None:
        self._at += len("[?(")
        self._take()
        quote, is_closed = "", False
        while (character := self._next()) != ")" or bool(quote) != is_closed:
            if character in {_END, "\n"}:
                raise JSONPathError("unterminated filter")
            if character not in {'"', "'"}:
                continue
            if not quote:
                quote = character
            elif character == quote and self._text[self._at - 2] != "\\":
                is_closed = True
        if self._next() != "]":
            raise JSONPathError("unclosed array expect ]")
        text = self._take()[:-2]
        compared = _COMPARISON.fullmatch(text)
        for side in (text,) if compared is None else (compared[1], compared[3]):
            _Parser(f"{{{side}}}").parse()

    def _parse_quote(self, quote: str) -> None:
        while (character := self._next()) != quote or self._text[self._at - 2] == "\\":
            if character in {_END, "\n"}:
                raise JSONPathError("unterminated quoted string")
        value = self._take()
        if len(value) < 2 or not _is_quoted(value[1:-1], quote):
            raise JSONPathError(f"unquote string {value} error invalid syntax")


def _check_slice(text: str) -> None:
    found = _SLICE.fullmatch(text)
    if found is None:
        raise JSONPathError(f"invalid array index {text}")
    for place, part in enumerate(found.groups()):
        number = (part or "").removeprefix(":") if place else part
        if number and (number == "-" or abs(int(number)) > _LARGEST_INDEX):
            raise JSONPathError(f"array index {number} is not a number")


_LARGEST_INDEX = 2**63 - 1
_ESCAPES: Mapping[re.Pattern[str], Callable[[str], bool]] = {
    pattern(r"x[0-9A-Fa-f]{2}"): lambda _: True,
    pattern(r"u[0-9A-Fa-f]{4}"): lambda digits: not 0xD800 <= int(digits, 16) < 0xE000,
    pattern(r"U[0-9A-Fa-f]{8}"): lambda digits: (
        int(digits, 16) < 0x110000 and not 0xD800 <= int(digits, 16) < 0xE000
    ),
    pattern(r"[0-7]{3}"): lambda digits: int(digits, 8) < 256,
    pattern(r"[abfnrtv\\]"): lambda _: True,
}
"""What may follow a backslash, and whether its digits are a character."""


def _is_quoted(text: str, quote: str) -> bool:
    """Tell whether a text may stand in quotes: ``UnquoteExtend``."""
    if "\\" not in text and quote not in text:
        return True
    at = 0
    while at < len(text):
        if text[at] == quote:
            return False
        if text[at] != "\\":
            at += 1
            continue
        length = _escape_length(text, at + 1, quote)
        if not length:
            return False
        at += 1 + length
    return True


def _escape_length(text: str, at: int, quote: str) -> int:
    """How long the escape is that begins after a backslash; 0 if there is none."""
    if text[at : at + 1] == quote:
        return 1
    for escape, is_character in _ESCAPES.items():
        if found := escape.match(text, at):
            digits = found[0] if found[0][0].isdigit() else found[0][1:]
            return len(found[0]) if is_character(digits) else 0
    return 0
