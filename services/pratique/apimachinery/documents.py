"""Reading documents as ``kubectl`` does: YAML and JSON files, folders of them, and streams.

A text that begins with ``{`` or ``[`` is tried as JSON first and then as YAML, as
``k8s.io/apimachinery/pkg/util/yaml/decoder.go`` does; a file named ``.json`` or ``.jsonl`` must be JSON.
"""

from __future__ import annotations

import codecs
import dataclasses
import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeAlias

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.field_errors import FieldPath
from pratique.apimachinery.file_snapshots import read_recorded
from pratique.apimachinery.json_values import JSON, JSONObject, decode, encode, json_type, member
from pratique.apimachinery.manifest_files import list_files, os_error_text, read_lines, read_whole
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.source_documents import (
    MOST_DUPLICATES,
    STDIN,
    JsonOrigin,
    Position,
    SourceDocument,
    SourceText,
    YamlOrigin,
    decode_text,
    display_path,
    find_duplicates,
    position_of_offset,
    skip_spaces,
    unwrap_lists,
)

if TYPE_CHECKING:
    from pratique.apimachinery.yaml_values import DuplicateField, YamlValue  # JSON alone needs no YAML parser


class NotAnObjectError(InputError):
    """A document is a list, a text, a number, a boolean or null, which no Kubernetes object is."""

    def __init__(self, fault: InputError, data: JSON, *, is_alone: bool) -> None:
        """Hold the error, what the document is instead, and whether it is all that its file holds."""
        super().__init__(str(fault), file=fault.file, place=fault.place)
        self.data = data
        self.is_alone = is_alone


JSON_LINES = ".jsonl"
"""The extension of files that hold one JSON value a line."""

_JSON_ONLY = (".json", JSON_LINES)
_JSON_START = pattern(rb"[ \t\r\n]*[{\[]")
_BYTE = pattern(r" \(byte (\d+)\)")
_SCANNER = json.JSONDecoder()
_UNSCANNED = (
    ("Input data was truncated", "a \\u escape stands for half a character"),
    ("Number out of range", "a number is out of range"),
    ("Integer value out of range", "a number is out of range"),
)
_OUT_OF_RANGE = "not JSON: a number is out of range"
_FOREIGN_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_MARKS = (*_FOREIGN_MARKS, codecs.BOM_UTF8)


YamlValues: TypeAlias = "Iterable[YamlValue]"
"""What a YAML text holds, as :func:`pratique.apimachinery.yaml_values.read_values` yields it."""


def is_plain_yaml(text: SourceText) -> bool:
    """Tell whether :func:`read_source_text` reads a text as YAML, and its bytes as they are."""
    return not (_JSON_START.match(text.raw) or text.raw.startswith(_MARKS) or text.file.endswith(JSON_LINES))


def read_source_text(
    text: SourceText, *, unique_keys: bool = False, values: YamlValues | None = None
) -> Iterator[SourceDocument]:
    """Read the documents of a text; there may be none.

    Args:
        text: The text.
        unique_keys: Refuse an object with a duplicate member. Otherwise the last one wins.
        values: What the text holds, if it :func:`is_plain_yaml <is_plain_yaml>` and has been read before.

    Raises:
        InputError: the text is neither JSON nor YAML, or a document is not an object.
    """
    _check_encoding(text)
    if text.raw.startswith(codecs.BOM_UTF8):
        text = dataclasses.replace(text, raw=text.raw.removeprefix(codecs.BOM_UTF8))
    if _JSON_START.match(text.raw) or text.file.endswith(JSON_LINES):
        return _read_json(text, unique_keys=unique_keys)
    return _read_yaml(text, unique_keys=unique_keys, values=values)


def read_line(text: SourceText, *, unique_keys: bool = False) -> SourceDocument | None:
    """Read a line that is one JSON value; None if it is not.

    Raises:
        InputError: the value is not an object.
    """
    if not _JSON_START.match(text.raw):
        return None
    try:
        data = decode(text.raw)
    except (ValueError, RecursionError):
        return None
    value = _Value(0, 1, data)
    document = _json_document(text, 0, value, unique_keys=unique_keys)
    return _with_json_duplicates(document, text, value) if _may_have_duplicates(text, [value]) else document


def _check_encoding(text: SourceText) -> None:
    for mark, name in _FOREIGN_MARKS.items():
        if text.raw.startswith(mark):
            raise InputError(f"{display_path(text.file)}: is {name}; save it as UTF-8", file=text.file)


class _Value(NamedTuple):
    """A JSON value in a text: the character offset and line at which it begins, and its data."""

    offset: int
    line: int
    data: JSON


def _read_json(text: SourceText, *, unique_keys: bool) -> Iterator[SourceDocument]:
    try:
        values = _read_values(text)
    except InputError:
        # Flow-style YAML looks like JSON; only the file name or JSON lines before it rule it out.
        if text.file.endswith(_JSON_ONLY) or text.first_index > 0:
            raise
        yield from _read_yaml(text, unique_keys=unique_keys)
        return
    may_repeat = _may_have_duplicates(text, values)
    for index, value in enumerate(values):
        document = _json_document(text, index, value, unique_keys=unique_keys, is_alone=len(values) == 1)
        yield _with_json_duplicates(document, text, value) if may_repeat else document


def _may_have_duplicates(text: SourceText, values: Iterable[_Value]) -> bool:
    """Whether a text may have duplicate members: each is lost in decoding, and so is its colon."""
    return text.raw.count(b":") != sum(encode(value.data).count(b":") for value in values)


def _with_json_duplicates(document: SourceDocument, text: SourceText, value: _Value) -> SourceDocument:
    decoded = decode_text(text.raw)
    try:
        found = list(itertools.islice(find_duplicates(decoded, value.offset), MOST_DUPLICATES))
    except RecursionError:
        # The value is deeper than any object that is taken, which its reader says.
        return document
    places = [(path, text.in_file(position_of_offset(decoded, place))) for path, place in found]
    return dataclasses.replace(document, duplicates=tuple(places))


def _read_values(text: SourceText) -> list[_Value]:
    try:
        data = decode(text.raw)
    except (ValueError, RecursionError):
        return _split_values(text)
    start = _JSON_START.match(text.raw)
    return [_Value(0, text.raw.count(b"\n", 0, start.end() if start else 0) + 1, data)]


def _split_values(text: SourceText) -> list[_Value]:
    """Split a text into its stream of JSON values, or report its first syntax error."""
    decoded = _decode_utf8(text)
    values: list[_Value] = []
    end, offset, line = 0, skip_spaces(decoded, 0), 1
    while offset < len(decoded):
        line += decoded.count("\n", end, offset)
        end = _scan_value(text, len(values), decoded, offset)
        values.append(_Value(offset, line, _decode_value(text, len(values), decoded, offset, end)))
        line += decoded.count("\n", offset, end)
        offset = skip_spaces(decoded, end)
    return values


def _scan_value(text: SourceText, index: int, decoded: str, offset: int) -> int:
    """Find the end of a JSON value."""
    try:
        return _SCANNER.raw_decode(decoded, offset)[1]
    except json.JSONDecodeError as error:
        place, problem = _syntax_problem(decoded, error)
        raise text.fault(index, position_of_offset(decoded, place), f"not JSON: {problem}") from None
    except ValueError:
        # Python refuses integers of more than 4,300 digits.
        raise text.fault(index, position_of_offset(decoded, offset), _OUT_OF_RANGE) from None
    except RecursionError:
        raise text.fault(index, None, "nested too deeply to be read") from None


_TRAILING_COMMA = pattern(r",[ \t\r\n]*\Z")
_CLOSING = pattern(r",?[ \t\r\n]*[]}]")


def _syntax_problem(decoded: str, error: json.JSONDecodeError) -> tuple[int, str]:
    """Where a syntax error is and what it is, said so that whoever wrote the text finds it."""
    place = error.pos
    before = _TRAILING_COMMA.search(decoded, max(0, place - _MOST_BLANKS), place)
    comma = before.start() if before else place
    if decoded.startswith(",", comma) and _CLOSING.match(decoded, place):
        return comma, "a comma before the closing bracket: nothing comes after it"
    if decoded.startswith(("//", "/*", "#"), place):
        return place, "a comment, which JSON does not have"
    if not decoded[place : place + _MOST_BLANKS].strip():
        return place, "the text ends before the value is complete"
    return place, f"{error.msg[0].lower()}{error.msg[1:]}"


_MOST_BLANKS = 1000
"""Characters that are looked at around an error."""


def _decode_value(text: SourceText, index: int, decoded: str, offset: int, end: int) -> JSON:
    """Decode a value that Python's scanner accepted, which is laxer than JSON: it allows NaN."""
    value = decoded[offset:end].encode()
    try:
        return decode(value)
    except ValueError as error:
        found = _BYTE.search(str(error))
        bad = offset + len(value[: int(found[1])].decode(errors="ignore")) if found else offset
        problems = (problem for beginning, problem in _UNSCANNED if str(error).startswith(beginning))
        problem = next(problems, "invalid character")
        raise text.fault(index, position_of_offset(decoded, bad), f"not JSON: {problem}") from None


def _json_document(
    text: SourceText, index: int, value: _Value, *, unique_keys: bool, is_alone: bool = False
) -> SourceDocument:
    if unique_keys:
        decoded = decode_text(text.raw)
        for path, place in find_duplicates(decoded, value.offset):
            problem = f'strict decoding error: duplicate field "{FieldPath(path)}"'
            raise text.fault(index, position_of_offset(decoded, place), problem)
    if not isinstance(value.data, dict):
        raise _not_an_object(text, index, value.line, value.data, is_alone=is_alone)
    return _document(text, index, value.line, value.data, JsonOrigin(text, value.offset))


def _read_yaml(
    text: SourceText, *, unique_keys: bool, values: YamlValues | None = None
) -> Iterator[SourceDocument]:
    # JSON alone needs no YAML parser.
    from pratique.apimachinery.yaml_block_style import read_yaml  # noqa: PLC0415
    from pratique.apimachinery.yaml_values import YamlReadError  # noqa: PLC0415

    index = 0
    try:
        found = iter(read_yaml(text.raw, unique_keys=unique_keys) if values is None else values)
        for value in found:
            if not isinstance(value.value, dict):
                is_alone = index == 0 and next(found, None) is None
                raise _not_an_object(text, index, value.line, value.value, is_alone=is_alone)
            document = _document(text, index, value.line, value.value, YamlOrigin(text, value.line))
            yield _with_duplicates(document, text, value.duplicates) if value.duplicates else document
            index += 1
    except YamlReadError as fault:
        hint = _TEMPLATE_HINT if b"{{" in text.raw and _is_utf8(text.raw) else ""
        raise text.fault(index, Position(fault.line, fault.column), f"{fault.problem}{hint}") from None


_TEMPLATE_HINT = "; it holds {{: if it is a template, render it first, as helm template does"


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _not_an_object(
    text: SourceText, index: int, line: int, data: JSON, *, is_alone: bool
) -> NotAnObjectError:
    problem = f"expected an object with apiVersion and kind, got {json_type(data)}"
    return NotAnObjectError(text.fault(index, Position(line, 1), problem), data, is_alone=is_alone)


def _document(
    text: SourceText, index: int, line: int, data: JSONObject, origin: JsonOrigin | YamlOrigin
) -> SourceDocument:
    place = text.in_file(Position(line, 1))
    return SourceDocument(data, text.file, text.first_index + index, place.line, origin)


def _with_duplicates(
    document: SourceDocument, text: SourceText, duplicates: Iterable[DuplicateField]
) -> SourceDocument:
    places = [(found.path, text.in_file(Position(found.line, found.column))) for found in duplicates]
    return dataclasses.replace(document, duplicates=tuple(places))


def _decode_utf8(text: SourceText) -> str:
    try:
        return text.raw.decode()
    except UnicodeDecodeError as error:
        before = text.raw[: error.start]
        column = len(before[before.rfind(b"\n") + 1 :].decode()) + 1
        place = Position(before.count(b"\n") + 1, column)
        raise text.fault(0, place, f"not UTF-8: byte 0x{text.raw[error.start]:02x}") from None


SUITE_GROUP = "test.pratique"
"""The API group of test suites, which no API server knows."""


def is_suite(data: JSON) -> bool:
    """Tell whether a document belongs to a test suite, whatever its version and kind."""
    version = member(data, "apiVersion")
    return isinstance(version, str) and version.startswith(f"{SUITE_GROUP}/")


NO_DOCUMENTS = "holds no documents; expected an object with apiVersion and kind"
"""The error for a path without documents."""


def read_documents(
    path: Path | str, *, unique_keys: bool = False, stdin: BinaryIO | None = None
) -> Iterator[SourceDocument]:
    """Read the documents of a file, of the files of a folder and its subfolders, or of standard input.

    In folders, only ``.yaml``, ``.yml`` and ``.json`` files are read, in the order of
    :func:`pratique.apimachinery.manifest_files.walk`.
    A ``.jsonl`` file, and standard input as long as every line is a JSON value, are read line by line, whatever
    their length.

    Args:
        path: A file, a folder, or ``-``.
        unique_keys: Refuse an object with a duplicate member. Otherwise the last one wins.
        stdin: Read instead of this process's standard input.

    Raises:
        InputError: something cannot be read, or there are no documents.
    """
    found = False
    for document in _read_path(str(path), unique_keys=unique_keys, stdin=stdin):
        found = True
        yield document
    if not found:
        raise InputError(f"{display_path(str(path))}: {NO_DOCUMENTS}")


def read_text(raw: bytes, file: str, *, unique_keys: bool = False) -> Iterator[SourceDocument]:
    """Read the documents of a text; there may be none.

    Raises:
        InputError: the text is neither JSON nor YAML, or a document is not an object.
    """
    return read_source_text(SourceText(raw, file), unique_keys=unique_keys)


def read_file(file: str, *, unique_keys: bool = False) -> Iterator[SourceDocument]:
    """Read the documents of one file; there may be none.

    Raises:
        InputError: it cannot be read, is neither JSON nor YAML, or a document is not an object.
    """
    try:
        with Path(file).open("rb") as stream:
            yield from read_recorded(
                file, stream, lambda read: _read_open(read, file, unique_keys=unique_keys)
            )
    except OSError as error:
        raise InputError(f"{file}: {os_error_text(error)}") from None


def _read_open(stream: BinaryIO, file: str, *, unique_keys: bool) -> Iterator[SourceDocument]:
    if file.endswith(JSON_LINES):
        return _read_stream(stream, file, unique_keys=unique_keys)
    return read_text(read_whole(stream, file), file, unique_keys=unique_keys)


def read_objects(
    paths: Iterable[Path | str],
    problems: list[str],
    *,
    unique_keys: bool = False,
    excluded: Sequence[str] = (),
    leave_out: Callable[[JSON], bool] = lambda _: False,
) -> Iterator[SourceDocument]:
    """Read the objects of files and folders: lists are unwrapped, and test suites left out.

    A file in a folder may be empty; a path without any documents is a problem.

    Args:
        paths: Files and folders, or ``-`` for standard input.
        problems: Receives a line for each file that cannot be read; the other files are read all the same.
        unique_keys: Refuse an object that has a member twice. Otherwise the last one counts.
        excluded: The files of folders to leave out, as for :func:`list_files <list_files>`.
        leave_out: Tells whether what a file in a folder holds instead of objects is no problem.
    """
    for path in paths:
        try:
            files = list_files(path, excluded)
        except InputError as error:
            problems.append(str(error))
            continue
        known, found = len(problems), False
        for file in files:
            read = (
                read_documents if file == str(path) else read_file
            )  # only read_documents knows standard input
            try:
                for document in read(file, unique_keys=unique_keys):
                    found = True
                    if not is_suite(document.data):
                        yield from unwrap_lists([document])
            except NotAnObjectError as error:
                if file == str(path) or not error.is_alone or not leave_out(error.data):
                    problems.append(str(error))
                found = True
            except InputError as error:
                problems.append(str(error))
        if not found and len(problems) == known:
            problems.append(f"{path}: {NO_DOCUMENTS}")


def _read_path(path: str, *, unique_keys: bool, stdin: BinaryIO | None) -> Iterator[SourceDocument]:
    if path == STDIN:
        yield from _read_stream(stdin or sys.stdin.buffer, STDIN, unique_keys=unique_keys)
        return
    for file in list_files(path):
        yield from read_file(file, unique_keys=unique_keys)


def _read_stream(stream: BinaryIO, file: str, *, unique_keys: bool) -> Iterator[SourceDocument]:
    """Read line by line while every line is a JSON value; read the rest at once from the first other line."""
    index = 0
    for number, line in enumerate(read_lines(stream, file), start=1):
        if line.isspace():
            continue
        text = SourceText(line, file, number, index)
        document = read_line(text, unique_keys=unique_keys)
        if document is None:
            rest = dataclasses.replace(text, raw=read_whole(stream, file, line))
            yield from read_source_text(rest, unique_keys=unique_keys)
            return
        yield document
        index += 1
