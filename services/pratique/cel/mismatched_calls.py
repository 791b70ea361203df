"""Calls of functions that exist, with a number of arguments, or in a style, that none of their overloads has.

To cel-go, no overload matches such a call; to the checker, its function is undeclared. So an expression with such
errors is checked once more, with another name for the function in these calls: one that takes any number of arguments
in both styles, all of a type that no value has. What the checker then says of it, it says of the function. Only values
of type ``dyn`` and null count as of that type: a call with nothing else stays undeclared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.patterns import pattern
from pratique.cel.declarations import Library, Overload, function_configurations, function_name

_UNDECLARED = pattern(
    r"ERROR: <input>:(\d+):(\d+): undeclared reference to '([^']+)' \(in container '[^']*'\)"
)
_PLACE = pattern(r"ERROR: <input>:(\d+:\d+): ")
_FUNCTION = pattern(r"[A-Za-z][A-Za-z0-9]*(?:\.[A-Za-z][A-Za-z0-9]*)*")
_CALL = pattern(rf"\s*({_FUNCTION.pattern})\s*\(")
_IN_CHECKER = ("or", "orValue")
"""Functions that the checker declares, and that nobody has to implement."""
_NO_VALUE = "kubernetes.None"
"""A type that no value has, so that nothing but an error comes of it."""
_MARKS, _MOST_ARGUMENTS = "ab", 10
"""The letters in which names of one length differ; how many arguments the calls have at most."""


def function_names(libraries: Iterable[Library], overloads: Iterable[Overload]) -> frozenset[str]:
    """The names of all functions of some libraries and overloads, without operators."""
    libraries = tuple(libraries)
    declared = [*overloads, *(overload for library in libraries for overload in library.overloads)]
    identifiers = {overload.identifier for overload in declared}
    names = {function_name(overload) for overload in declared} | {*_IN_CHECKER}
    for library in libraries:
        names |= library.functions.keys() - identifiers
    return frozenset(name for name in names if _FUNCTION.fullmatch(name))


def substitute_configurations(names: Iterable[str]) -> list[JSONObject]:
    """The declarations of names that stand for functions."""
    overloads = []
    for name in names:
        for number in range(_MOST_ARGUMENTS + 1):
            arguments = ", ".join([_NO_VALUE] * number)
            overloads.append(Overload(f"{name}_of_{number}", f"{_NO_VALUE}.{name}({arguments})", "dyn"))
            if number:  # what takes nothing would match
                overloads.append(Overload(f"{name}_{number}", f"{name}({arguments})", "dyn"))
    return function_configurations(tuple(overloads))


class SubstitutedCalls(msgspec.Struct, frozen=True):
    """An expression with other names for the functions of some calls."""

    source: str
    """The expression, of the same length, so that positions stay right."""
    names: Mapping[str, str]
    """From the names in it to those of the functions."""
    places: frozenset[str]
    """The lines and columns of the calls, as errors name them."""

    def restore(self, errors: str) -> str:
        """The errors of the source with the names of the functions; empty if a call has none."""
        if not self.places <= {match[1] for match in _PLACE.finditer(errors)}:
            return ""
        for name, function in self.names.items():
            errors = re.sub(rf"(?<![A-Za-z0-9_]){name}(?![A-Za-z0-9_])", function, errors)
        return errors


def substitute(source: str, errors: str, functions: frozenset[str]) -> SubstitutedCalls | None:
    """Rename what the checker takes for undeclared in calls of functions; None if there is nothing of the kind."""
    found: dict[str, str] = {}
    places: set[str] = set()
    changed = source
    for match in _UNDECLARED.finditer(errors):
        offset = _offset(source, int(match[1]), int(match[2]))
        span = _span(source, offset, match[3], functions)
        if span is None:
            continue
        function = source[slice(*span)]
        name = found.get(function) or _unused(len(function), source, set(found.values()))
        if name:
            found[function] = name
            changed = changed[: span[0]] + name + changed[span[1] :]
            places.add(_place(source, source.index("(", span[1])))
    if not found:
        return None
    return SubstitutedCalls(changed, {new: old for old, new in found.items()}, frozenset(places))


def _span(source: str, offset: int, name: str, functions: frozenset[str]) -> tuple[int, int] | None:
    """Where the name of a function is whose call has an error at an offset: at its parenthesis, or at a namespace."""
    if source[offset : offset + 1] == "(":
        end = len(source[:offset].rstrip())
        return (end - len(name), end) if name in functions and source.endswith(name, 0, end) else None
    call = _CALL.match(source, offset)
    is_of_namespace = call is not None and "." in call[1] and call[1].startswith(f"{name}.")
    return call.span(1) if call is not None and is_of_namespace and call[1] in functions else None


def _unused(length: int, source: str, used: set[str]) -> str:
    names = ("_" * (length - 1) + mark for mark in _MARKS)
    return next((name for name in names if name not in source and name not in used), "")


def reword_calls_of_nothing(errors: str, source: str, functions: frozenset[str]) -> str:
    """Say that no overload takes nothing, where a function that is called without any value is undeclared."""

    def reword(match: re.Match[str]) -> str:
        offset = _offset(source, int(match[1]), int(match[2]))
        is_method = re.search(rf"\.\s*{re.escape(match[3])}\s*\Z", source[:offset])
        if match[3] not in functions or is_method or not _NOTHING.match(source, offset):
            return match[0]
        return f"ERROR: <input>:{match[1]}:{match[2]}: found no matching overload for '{match[3]}' applied to '()'"

    return _UNDECLARED.sub(reword, errors)


_NOTHING = pattern(r"\(\s*\)")


def _place(source: str, offset: int) -> str:
    """The line and column of an offset, as errors name them."""
    before = source[:offset]
    return f"{before.count(chr(10)) + 1}:{offset - before.rfind(chr(10))}"


def _offset(source: str, line: int, column: int) -> int:
    return sum(len(text) + 1 for text in source.split("\n")[: line - 1]) + column - 1
