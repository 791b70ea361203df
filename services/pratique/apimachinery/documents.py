"""Documents that people write: YAML and JSON files, folders of them, and streams, read as ``kubectl`` reads them."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pratique.apimachinery.document_texts import JSON_LINES, read_line
from pratique.apimachinery.document_texts import _read_source_text
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.folders import walk
from pratique.apimachinery.json_values import member
from pratique.apimachinery.readings import read_recorded
from pratique.apimachinery.source_documents import STDIN, SourceDocument, SourceText, display_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from pratique.apimachinery.json_values import JSON

SUITE_GROUP = "test.pratique"
"""The API group of suites, which no API server knows."""


def is_suite(data: JSON) -> bool:
    """True for a document of that group, whatever its version and kind."""
    version = member(data, "apiVersion")
    return isinstance(version, str) and version.startswith(f"{SUITE_GROUP}/")


NO_DOCUMENTS = "holds no documents; expected an object with apiVersion and kind"
"""What is wrong with a path without any."""


def read_documents(
    path: Path | str, *, unique_keys: bool = False, stdin: BinaryIO | None = None
) -> Iterator[SourceDocument]:
    """Read the documents of a file, of the files of a folder and its subfolders, or of standard input.

    Of folders, only ``.yaml``, ``.yml`` and ``.json`` files are read, in the order of
    :func:`pratique.apimachinery.folders.walk`.
    A ``.jsonl`` file, and standard input as long as each line is a JSON value, is read line by line, however long
    it is.

    Args:
        path: A file, a folder, or ``-``.
        unique_keys: Refuse an object that has a member twice. Otherwise the last one counts.
        stdin: Read instead of this process's standard input.

    Raises:
        InputError: something cannot be read, or there is no document at all.
    """
    found = False
    for document in _read_path(str(path), unique_keys=unique_keys, stdin=stdin):
        found = True
        yield document
    if not found:
        raise InputError(f"{display_path(str(path))}: {NO_DOCUMENTS}")


def read_text(raw: bytes, file: str, *, unique_keys: bool = False) -> Iterator[SourceDocument]:
    """Read the documents of a text, which may hold none.

    Raises:
        InputError: the text is neither JSON nor YAML, or a document is no object.
    """
    return _read_source_text(SourceText(raw, file), unique_keys=unique_keys)


def read_file(file: str, *, unique_keys: bool = False) -> Iterator[SourceDocument]:
    """Read the documents of one file, which may hold none.

    Raises:
        InputError: it cannot be read, is neither JSON nor YAML, or a document is no object.
    """
    try:
        with Path(file).open("rb") as stream:
            yield from read_recorded(file, stream, lambda read: _read_open(read, file, unique_keys=unique_keys))
    except OSError as error:
        raise InputError(f"{file}: {_os_error_text(error)}") from None


def _read_open(stream: BinaryIO, file: str, *, unique_keys: bool) -> Iterator[SourceDocument]:
    if file.endswith(JSON_LINES):
        return _read_stream(stream, file, unique_keys=unique_keys)
    return read_text(stream.read(), file, unique_keys=unique_keys)


def list_files(path: Path | str) -> list[str]:
    """List what there is to read: the files of a folder and its subfolders, or what was named itself.

    Raises:
        InputError: it is a folder without a single such file, or one that cannot be read.
    """
    folder = Path(path)
    if str(path) == STDIN or not folder.is_dir():
        return [str(path)]
    try:
        files = [str(entry) for entry, is_folder in walk(folder) if not is_folder]
    except OSError as error:
        raise InputError(f"{error.filename or path}: {_os_error_text(error)}", file=str(path)) from None
    if not files:
        problem = "holds no .yaml, .yml or .json file, and neither do its subfolders"
        raise InputError(f"{path}: {problem}{_other_files_hint(folder)}", file=str(path))
    return files


def _other_files_hint(folder: Path) -> str:
    """Name a file that a folder holds instead, so that a wrong ending is noticed."""
    names = sorted(entry.name for entry in folder.iterdir() if not entry.is_dir())
    return f"; files with other endings, such as {names[0]}, are not read" if names else ""


def _read_path(path: str, *, unique_keys: bool, stdin: BinaryIO | None) -> Iterator[SourceDocument]:
    if path == STDIN:
        yield from _read_stream(stdin or sys.stdin.buffer, STDIN, unique_keys=unique_keys)
        return
    for file in list_files(path):
        yield from read_file(file, unique_keys=unique_keys)


def _read_stream(stream: BinaryIO, file: str, *, unique_keys: bool) -> Iterator[SourceDocument]:
    """Read line by line while each is a JSON value; from the first other line on, all the rest at once."""
    index = 0
    for number, line in enumerate(stream, start=1):
        if line.isspace():
            continue
        text = SourceText(line, file, number, index)
        document = read_line(text, unique_keys=unique_keys)
        if document is None:
            rest = dataclasses.replace(text, raw=line + stream.read())
            yield from _read_source_text(rest, unique_keys=unique_keys)
            return
        yield document
        index += 1


def _os_error_text(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file or folder"
    return (error.strerror or str(error)).lower()
