"""Compilation errors: what the type checker says, as the API server says it.

The checker is Google's in C++, the API server's Google's in Go. Their texts are nearly the same, positions and all;
what differs is put right here as far as it can be, the rest is listed in ``docs/cel.md``.
"""

from __future__ import annotations

import re

_KIND = re.compile(r"\A[A-Z_]+: ")
_TAIL = re.compile(r" \[[A-Z_]+\]\Z")
_UNDEFINED_FIELD = re.compile(r"(undefined field '[^']*') not found in struct '[^']*'")
_QUALIFIED = re.compile(
    r"ERROR: <input>:(\d+):(\d+): undeclared reference to '([^'.]+)((?:\.[^'.]+)+)'( \(in container '[^']*'\))"
    r"\n \| [^\n]*\n \| [^\n]*"
)
"""Place, name, what is selected from it, and the rest of an error that has its source under it."""
_TOO_DEEP = re.compile(r"(?:Exceeded max|Expression) recursion (?:depth|limit)")

TOO_DEEP = "ERROR: <input>:-1:0: expression recursion limit exceeded: 32"
"""For expressions nested more deeply than the parser goes."""


def in_api_servers_words(text: str, source: str) -> str:
    """Translate what the checker says of ``source``."""
    if _TOO_DEEP.search(text):
        return TOO_DEEP
    text = _TAIL.sub("", _KIND.sub("", text))
    text = _UNDEFINED_FIELD.sub(r"\1", text)
    return _QUALIFIED.sub(lambda match: _unqualified(match, source), text)


def _unqualified(match: re.Match[str], source: str) -> str:
    """Blame ``a`` for ``a.b.c``, and at its beginning: the C++ checker stands at the last point."""
    line, point, name, rest = int(match[1]), int(match[2]), match[3], match[4]
    written = name + rest
    start = point - 1 - written.rindex(".")
    lines = source.split("\n")
    if (
        not source.isascii()
        or not 0 < line <= len(lines)
        or not lines[line - 1].startswith(written, max(start, 0))
    ):
        return match[0].replace(f"'{written}'", f"'{name}'")
    offset = sum(len(one) + 1 for one in lines[: line - 1]) + start
    return error_at(source, offset, f"undeclared reference to '{name}'{match[5]}")


def error_at(source: str, offset: int, message: str) -> str:
    """Word an error of our own at a place in the source, as the checkers do."""
    before = source[:offset]
    line = before.count("\n")
    column = offset - (before.rfind("\n") + 1)
    shown = source.split("\n")[line]
    return f"ERROR: <input>:{line + 1}:{column + 1}: {message}\n | {shown}\n | {'.' * column}^"
