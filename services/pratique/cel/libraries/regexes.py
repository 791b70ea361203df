"""Regular expressions: ``matches``, ``find`` and ``findAll``.

RE2 has Go's syntax, and takes time linear in the string, whatever the pattern. Source:
``k8s.io/apiserver/pkg/cel/library/regex.go``.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING

import re2  # type: ignore[import-untyped] # google-re2 comes without types

from pratique.cel.declarations import Library, Overload
from pratique.cel.errors import EvaluationError, NoSuchOverloadError
from pratique.cel.libraries.strings import require_types
from pratique.cel.values import Value

if TYPE_CHECKING:
    from pratique.cel.activation import Frame, Implementation

_PATTERN_CACHE_SIZE = 256
"""How many compiled patterns are cached; nearly all patterns of policies are literals."""
_MATCH_WORK = 40
"""Uncounted work for each match: the binding takes about 10 µs to make an object of it."""
_GO_WORDS = {
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid escape sequence": "invalid escape sequence",
    "invalid character class range": "invalid character class range",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
}
"""From RE2's error messages to those of Go's ``regexp/syntax``."""


@functools.lru_cache(_PATTERN_CACHE_SIZE)
def compile_pattern(pattern: str) -> re2._Regexp:
    """Compile a pattern. Raises EvaluationError with the message of Go's ``regexp.Compile``."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise EvaluationError(f"error parsing regexp: {_to_go_message(error)}") from None


def _to_go_message(error: Exception) -> str:
    text = error.args[0]
    message = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    problem, _, place = message.partition(": ")
    if problem.startswith("trailing"):
        return "trailing backslash at end of expression: ``"
    return f"{_GO_WORDS.get(problem, problem)}: `{place}`"


def _matches(_: Frame, text: Value, pattern: Value) -> bool:
    if type(text) is not str:
        raise NoSuchOverloadError("matches")
    if type(pattern) is not str:
        raise NoSuchOverloadError("")
    return compile_pattern(pattern).search(text) is not None


def _compile_for_find(pattern: str) -> re2._Regexp:
    try:
        return compile_pattern(pattern)
    except EvaluationError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def _find(_: Frame, text: Value, pattern: Value) -> str:
    require_types((str, str), text, pattern)
    found = _compile_for_find(pattern).search(text)
    return found.group(0) if found else ""


def _find_all(frame: Frame, text: Value, pattern: Value, limit: Value = -1) -> list[str]:
    require_types((str, str), text, pattern)
    require_types((int,), limit)
    found: list[str] = []
    end = -1
    for match in itertools.takewhile(
        lambda _: limit < 0 or len(found) < limit, _compile_for_find(pattern).finditer(text)
    ):
        if match.start() == match.end() == end:
            continue  # Go finds no empty match right after another match
        frame.add_work(_MATCH_WORK)
        found.append(match.group(0))
        end = match.end()
    return found


def with_constant_pattern(implementation: Implementation, pattern: str) -> Implementation:
    """Compile a constant pattern once, for a function that takes it as its second argument.

    Raises:
        EvaluationError: it is malformed.
    """
    search = compile_pattern(pattern).search

    def matches(_: Frame, text: Value, __: Value) -> bool:
        if type(text) is not str:
            raise NoSuchOverloadError("")
        return search(text) is not None

    def find(frame: Frame, *arguments: Value) -> Value:
        try:
            return implementation(frame, *arguments)
        except NoSuchOverloadError:
            raise NoSuchOverloadError("") from None

    return matches if implementation is _matches else find


PATTERN_FUNCTIONS = frozenset({"matches", "find", "findAll"})
"""The functions whose second argument is a pattern."""

LIBRARY = Library(
    overloads=(
        Overload("string_find_string", "string.find(string)", "string"),
        Overload("string_find_all_string", "string.findAll(string)", "list<string>"),
        Overload("string_find_all_string_int", "string.findAll(string,int)", "list<string>"),
    ),
    functions={"matches": _matches, "find": _find, "findAll": _find_all},
)
