"""Compilation errors: the type checker's messages in the API server's words, with types as cel-go writes them."""

from __future__ import annotations

import re

from pratique.apimachinery.patterns import pattern
from pratique.cel import syntax_trees
from pratique.cel.syntax_trees import Message

_PRIMITIVES = {1: "bool", 2: "int", 3: "uint", 4: "double", 5: "string", 6: "bytes"}
_WELL_KNOWN = {1: "any", 2: "timestamp", 3: "duration"}
_DYN, _NULL, _PRIMITIVE, _WRAPPER, _KNOWN, _LIST, _MAP = 1, 2, 3, 4, 5, 6, 7
_MESSAGE, _PARAMETER, _TYPE, _ABSTRACT = 9, 10, 11, 14


def render_type(encoded: bytes) -> str:
    """Write an encoded ``cel.expr.Type`` as in errors; a type that the checker left open is ``dyn``."""
    message = syntax_trees.read_message(encoded)
    field = next(iter(message), _DYN)
    match field:
        case 2:
            return "null"
        case 3:
            return _PRIMITIVES.get(syntax_trees.number_at(message, _PRIMITIVE), "dyn")
        case 4:
            return f"wrapper({_PRIMITIVES.get(syntax_trees.number_at(message, _WRAPPER), 'dyn')})"
        case 5:
            return _WELL_KNOWN.get(syntax_trees.number_at(message, _KNOWN), "dyn")
        case 9:
            return syntax_trees.text_at(message, _MESSAGE)
        case _:
            return _composite(field, message)


_SHORT_NAMES = {
    "null": "null_type",
    "any": "google.protobuf.Any",
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
}
_SHORT_NAME = pattern(rf"(?<![\w.])(?:{'|'.join(_SHORT_NAMES)})(?![\w.])")


def to_type_name(text: str) -> str:
    """Write a type in full, as cel-go does outside its checker's errors: ``google.protobuf.Timestamp``."""
    return _SHORT_NAME.sub(lambda match: _SHORT_NAMES[match[0]], text)


def parse_type(text: str) -> tuple[str, tuple[str, ...]]:
    """Split a type in cel-go's notation into name and parameters: ``map(string, list(int))``."""
    name, _, rest = text.partition("(")
    parts: list[str] = []
    depth = start = 0
    inner = rest[:-1]
    for place, character in enumerate(inner):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(inner[start:place].strip())
            start = place + 1
    return name, (*parts, inner[start:].strip()) if inner else ()


def _composite(field: int, message: Message) -> str:
    inner = (
        syntax_trees.read_message(syntax_trees.data_at(message, field))
        if field in (_LIST, _MAP, _ABSTRACT)
        else {}
    )
    match field:
        case 6:
            return f"list({render_type(syntax_trees.data_at(inner, 1))})"
        case 7:
            return f"map({render_type(syntax_trees.data_at(inner, 1))}, {render_type(syntax_trees.data_at(inner, 2))})"
        case 11:
            return f"type({render_type(syntax_trees.data_at(message, _TYPE))})"
        case 14:
            parameters = [render_type(part) for part in inner.get(2, ()) if isinstance(part, bytes)]
            return (
                f"{syntax_trees.text_at(inner, 1)}({', '.join(parameters)})"
                if parameters
                else syntax_trees.text_at(inner, 1)
            )
        case _:
            return "dyn"


_KIND = pattern(r"\A[A-Z_]+: ")
_TAIL = pattern(r" \[[A-Z_]+\]\Z")
_ENTRY = pattern(r"\n(?=ERROR: <input>:\d+:\d+: )")
"""The boundary between two errors, each of which is followed by its source lines."""
_NOISE = pattern(r"\nERROR: <input>:-1:-1: <<nil>> parsetree|\nWARNING: [^\n]*(?:\n \| [^\n]*)*")
"""What the checker adds, and cel-go does not."""
_PLACE = pattern(r"ERROR: <input>:(\d+):(\d+): ")
_FOLLOW_UP_ERROR = pattern(
    r"expression of type '\*error\*' cannot be (?:the operand of a select operation|the range of a comprehension)"
)
"""The follow-up errors of the C++ checker for an operand, or for what a macro goes over, that is in error already."""
_REWORDINGS = (
    (
        pattern(
            r"undefined field '[^']*' not found in struct"
            r" '(kubernetes\.(?:authorization\.\w+|URL|Quantity|Semver|NamedFormat))'"
        ),
        r"unexpected failed resolution of '\1'",
    ),
    (
        pattern(r"undefined field '[^']*' not found in struct '(net\.\w+)'"),
        r"type '\1' does not support field selection",
    ),
    (pattern(r"(undefined field '[^']*') not found in struct '[^']*'"), r"\1"),
    (
        pattern(r"expression of type '([^']*)' cannot be the operand of a select operation"),
        r"type '\1' does not support field selection",
    ),
    (pattern(r"has\(\) argument must be a field selection"), "invalid argument to has() macro"),
    (
        pattern(r"(?:map|filter)\(\) variable name must be a simple identifier"),
        "argument is not an identifier",
    ),
    (
        pattern(r"\b(?!opt)\w+\(\) (?:first |second )?variable name must be a simple identifier"),
        "argument must be a simple name",
    ),
    (
        pattern(r"Invalid string literal: Illegal escape sequence: (?:Unicode v|V)alue .*"),
        "invalid unicode code point",
    ),
    (
        pattern(r"Invalid (?:string|bytes) literal: Illegal escape sequence: .*"),
        "unable to unescape string",
    ),
    (pattern(r"cannot be the range of a comprehension"), "cannot be range of a comprehension"),
    (pattern(r"\*error\*"), "!error!"),
    (pattern(r"\b[A-Z]\w*%\d+"), "dyn"),
    (pattern(r"\bgoogle\.protobuf\.(Timestamp|Duration|Any)\b"), lambda match: match[1].lower()),
    (pattern(r"(?<=[( ])null_type(?=[,)])|(?<=type ')null_type(?=')"), "null"),
)
"""The checker's words, and the API server's for them. cel-go knows types without fields by name only."""
_OVERLOAD = pattern(r"(found no matching overload for '(@?\w+)' applied to ')\((.*)\)'\Z")
_QUALIFIED = pattern(
    r"ERROR: <input>:(\d+):(\d+): undeclared reference to '([^'.]+)((?:\.[^'.]+)+)'( \(in container '[^']*'\))"
    r"\n \| [^\n]*\n \| [^\n]*"
)
"""Line, column, name, the fields selected from it, and the rest of an error with its source lines."""
_TOO_DEEP = pattern(r"(?:Exceeded max|Expression) recursion (?:depth|limit)")

TOO_DEEP = "ERROR: <input>:-1:0: expression recursion limit exceeded: 32"
"""The error of an expression that exceeds the parser's recursion limit."""


_NOWHERE = pattern(r":1:1:")
"""The place of the end of an empty expression, which cel-go counts from 0."""


def to_api_server_message(text: str, source: str) -> str:
    """Translate the checker's messages about ``source``."""
    if _TOO_DEEP.search(text):
        return TOO_DEEP
    text = _NOISE.sub("", _TAIL.sub("", _KIND.sub("", text)))
    text = _relocate(text, source)
    errors = [_reword(error, source) for error in _ENTRY.split(text) if not _FOLLOW_UP_ERROR.search(error)]
    if not source:
        errors = [_NOWHERE.sub(":1:0:", error, count=1) for error in errors]
    return "\n".join(sorted(errors, key=_place))


def _place(error: str) -> tuple[int, int]:
    """Line and column of an error: cel-go sorts errors by position."""
    match = _PLACE.match(error)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _reword(error: str, source: str) -> str:
    head, newline, shown = error.partition("\n")
    for wording, replacement in _REWORDINGS:
        head = wording.sub(replacement, head)
    head = _OVERLOAD.sub(lambda match: _reword_method_call(match, _source_before(error, source)), head)
    return head + newline + shown


def _source_before(error: str, source: str) -> str:
    """The part of the source line before the column of an error."""
    line, column = _place(error)
    lines = source.split("\n")
    return lines[line - 1][: column - 1] if 0 < line <= len(lines) else ""


def _reword_method_call(match: re.Match[str], before: str) -> str:
    """Write the receiver of a method before the point, ``string.(int)``; a call's position is its parenthesis."""
    if match[2] != "@sortByAssociatedKeys" and not re.search(rf"\.\s*{match[2]}\s*\Z", before):
        return match[0]
    target, *arguments = parse_type(f"({match[3]})")[1]
    return f"{match[1]}{target}.({', '.join(arguments)})'"


def _blame_root_name(match: re.Match[str], source: str) -> str:
    """Report ``a`` for ``a.b.c``, at its start: the C++ checker reports all of it, at the last point."""
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
    offset = sum(len(text_line) + 1 for text_line in lines[: line - 1]) + start
    return format_error(source, offset, f"undeclared reference to '{name}'{match[5]}")


_UNDECLARED = pattern(r"ERROR: <input>:\d+:\d+: undeclared reference to '([^']+)' \(in container '")
_BRACES = pattern(r"""[{}]|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""")
"""Braces, and the texts that may hold others."""


def _relocate(text: str, source: str) -> str:
    """Report undeclared names where cel-go does: an unknown type at the brace of its literal, and nothing inside it."""
    errors: list[tuple[int, str]] = []
    literals: list[tuple[int, int]] = []
    for error in _ENTRY.split(text):
        opening = _literal_of(error, source)
        if opening is None:
            moved = _QUALIFIED.sub(lambda match: _blame_root_name(match, source), error)
            errors.append((_offset(source, *_place(error)), moved))
        else:
            literals.append((opening, _closing_brace(source, opening)))
            message = error.partition("\n")[0].partition(": undeclared")[2]
            errors.append((opening, format_error(source, opening, f"undeclared{message}")))
    return "\n".join(
        error
        for offset, error in errors
        if not any(opening < offset < closing for opening, closing in literals)
    )


def _literal_of(error: str, source: str) -> int | None:
    """Where the brace is of the literal whose type is undeclared; None if the error is about something else."""
    match = _UNDECLARED.match(error)
    if match is None:
        return None
    start = _offset(source, *_place(error)) - max(match[1].rfind("."), 0)
    found = re.compile(rf"{re.escape(match[1])}\s*\{{").match(source, max(start, 0))
    return None if found is None else found.end() - 1


def _offset(source: str, line: int, column: int) -> int:
    return sum(len(text_line) + 1 for text_line in source.split("\n")[: line - 1]) + column - 1


def _closing_brace(source: str, opening: int) -> int:
    """Where the brace closes that opens at an offset; the end of the source if it does not."""
    depth = 0
    for found in _BRACES.finditer(source, opening):
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        if depth == 0:
            return found.start()
    return len(source)


_WIDE_DOT, _WIDE_MARK = "\N{FULLWIDTH FULL STOP}", "\N{FULLWIDTH CIRCUMFLEX ACCENT}"
"""What points to a character that takes more than one byte."""


def format_error(source: str, offset: int, message: str) -> str:
    """Format an error at an offset in the source as the checkers do."""
    before = source[:offset]
    line = before.count("\n")
    column = offset - (before.rfind("\n") + 1)
    shown = source.split("\n")[line]
    dots = "".join("." if character.isascii() else _WIDE_DOT for character in shown[:column])
    mark = "^" if shown[column : column + 1].isascii() else _WIDE_MARK
    return f"ERROR: <input>:{line + 1}:{column + 1}: {message}\n | {shown}\n | {dots}{mark}"
