"""Finding suites: the documents of files and folders, at any depth, that are suites."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from pratique.apimachinery.documents import SUITE_GROUP, is_suite, read_file, walk
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.source_documents import SourceDocument, unwrap_lists


def find_suites(paths: Iterable[Path], problems: list[InputError]) -> Iterator[SourceDocument]:
    """Yield the suites of files, and of folders and the folders inside them, in the order of their names.

    Other documents are passed over; a file that does not name the suites' API group is not even read as YAML, so
    that templates may stand beside suites. Hidden folders are not searched. What cannot be read, and paths without
    any suite, are added to ``problems``.
    """
    told: dict[str, bool] = {}
    for path in paths:
        found = False
        for file in _files(path, problems):
            real = os.path.realpath(file)
            if real not in told:
                begun = len(problems)
                documents = list(_suites(file, problems))
                told[real] = bool(documents) or len(problems) > begun
                yield from documents
            found = found or told[real]
        if not found:
            problems.append(InputError(f"{path}: {_no_suite_text(path)}", file=str(path)))


def _no_suite_text(path: Path) -> str:
    where = ", nor does any folder inside it" if path.is_dir() else ""
    return f"holds no suite: a document of apiVersion {SUITE_GROUP}/v1 and kind TestSuite{where}"


def _files(path: Path, problems: list[InputError]) -> Iterator[str]:
    if not path.is_dir():
        yield str(path)
        return
    try:
        yield from (str(entry) for entry, is_folder in walk(path) if not is_folder)
    except OSError as error:
        problems.append(_unreadable(error.filename or str(path), error))


def _unreadable(file: str, error: OSError) -> InputError:
    return InputError(f"{file}: {(error.strerror or str(error)).lower()}", file=file)


def _suites(file: str, problems: list[InputError]) -> Iterator[SourceDocument]:
    try:
        if SUITE_GROUP.encode() in Path(file).read_bytes():
            yield from (
                each for each in unwrap_lists(read_file(file, unique_keys=True)) if is_suite(each.data)
            )
    except OSError as error:
        problems.append(_unreadable(file, error))
    except InputError as error:
        problems.append(error)
