"""Reading the input of ``pratique review``, document by document."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeAlias

from pratique.apimachinery.documents import (
    JSON_LINES,
    list_files,
    read_documents,
    read_line,
    read_source_text,
)
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.names import DEFAULT_NAMESPACE, namespace_of
from pratique.apimachinery.source_documents import (
    STDIN,
    SourceDocument,
    SourceText,
    display_path,
    unwrap_lists,
)
from pratique.cluster.api_resources import ApiResources
from pratique.cluster.store import ObjectKey, ObjectStore

Input: TypeAlias = "SourceDocument | InputError"
"""A document, or why it cannot be read."""

_JSON = (b"{", b"[")
_YAML_BREAK = re.compile(rb"^---(?=\s|\Z)", re.MULTILINE)
"""The start of a YAML document. No other line can start like this, not even in a block scalar (``c-forbidden``)."""
_JSON_BREAK = re.compile(rb"^(?=[{\[])", re.MULTILINE)
"""Where the next JSON value may begin, in a stream that cannot be read as a whole."""
_DIRECTIVE = re.compile(rb"^%(?:YAML|TAG)\s", re.MULTILINE)


def read_inputs(path: Path | str, stdin: BinaryIO | None = None) -> Iterator[Input]:
    """Read a file, the files of a folder in name order, or standard input (``-``).

    If the first line is a JSON value, the input is read as JSON Lines; otherwise as JSON or YAML as a whole. Lists are
    unwrapped.
    """
    found = False
    for document in _read_path(str(path), stdin):
        found = True
        yield from [document] if isinstance(document, InputError) else _unwrap(document)
    if not found:
        yield InputError(
            f"{display_path(str(path))}: holds no documents; expected an AdmissionReview or a Kubernetes object",
            file=str(path),
        )


def _read_path(path: str, stdin: BinaryIO | None) -> Iterator[Input]:
    if path == STDIN:
        yield from _read_stream(sys.stdin.buffer if stdin is None else stdin, STDIN)
        return
    try:
        files = list_files(path)
    except InputError as error:
        yield error
        return
    for file in files:
        try:
            with Path(file).open("rb") as stream:
                yield from _read_stream(stream, file)
        except OSError as error:
            yield InputError(f"{file}: {(error.strerror or str(error)).lower()}", file=file)


def _read_stream(stream: BinaryIO, file: str) -> Iterator[Input]:
    index = 0
    for number, line in enumerate(stream, start=1):
        text = SourceText(line, file, number, index)
        if line.isspace():
            continue
        if not file.endswith(JSON_LINES) and (_YAML_BREAK.match(line) if index else not _is_value(text)):
            yield from _read_whole(SourceText(line + stream.read(), file, number, index))
            return
        # JSON Lines: a line that is not a JSON object is an unreadable document.
        yield from _read_piece(SourceText(line.rstrip(), file, number, index))
        index += 1


def _is_value(text: SourceText) -> bool:
    try:
        return read_line(text) is not None
    except InputError:
        return True


def _read_whole(text: SourceText) -> Iterator[Input]:
    if not text.raw.lstrip().startswith(_JSON):
        yield from _read_pieces(_split_yaml(text), text.first_index)
        return
    try:
        documents = list(read_source_text(text))
    except InputError:
        beginning = _YAML_BREAK if _YAML_BREAK.search(text.raw) else _JSON_BREAK
        yield from _read_pieces(_split(text, beginning), text.first_index)
    else:
        yield from documents


def _read_pieces(pieces: Iterable[SourceText], index: int) -> Iterator[Input]:
    for piece in pieces:
        for document in _read_piece(SourceText(piece.raw, piece.file, piece.first_line, index)):
            yield document
            index += 1


def _read_piece(piece: SourceText) -> Iterator[Input]:
    try:
        yield from read_source_text(piece)
    except InputError as error:
        yield error


def _split_yaml(text: SourceText) -> Iterator[SourceText]:
    """Split a YAML text into its documents; directives stay with the following document."""
    held: SourceText | None = None
    for piece in _split(text, _YAML_BREAK):
        whole = piece if held is None else SourceText(held.raw + piece.raw, piece.file, held.first_line)
        held = whole if held is None and _DIRECTIVE.search(piece.raw) else None
        if held is None:
            yield whole
    if held is not None:
        yield held


def _split(text: SourceText, beginning: re.Pattern[bytes]) -> Iterator[SourceText]:
    starts = [found.start() for found in beginning.finditer(text.raw)]
    line = text.first_line
    for start, end in itertools.pairwise(dict.fromkeys([0, *starts, len(text.raw)])):
        raw = text.raw[start:end]
        yield SourceText(raw, text.file, line)
        line += raw.count(b"\n")


def _unwrap(document: SourceDocument) -> Iterator[Input]:
    try:
        yield from unwrap_lists([document])
    except InputError as error:
        yield error


def load_old(paths: Iterable[Path | str], resources: ApiResources, namespace: str | None) -> ObjectStore:
    """Read the manifests of files and folders into a store; ``namespace`` is the default namespace.

    Kinds come from ``resources``, and from CustomResourceDefinitions among the manifests.

    Raises:
        InputError: a manifest cannot be read, has no known kind or no name, or occurs twice.
    """
    documents = [document for path in paths for document in unwrap_lists(read_documents(path))]
    return store_old(documents, resources, namespace)


def store_old(
    documents: Iterable[SourceDocument], resources: ApiResources, namespace: str | None
) -> ObjectStore:
    """Store manifests that have been read already, like :func:`load_old`."""
    store = ObjectStore(resources=resources)
    first: dict[ObjectKey, SourceDocument] = {}
    for document in sorted(documents, key=_after_definitions):
        try:
            key = _key_of(document, store, namespace)
            if key in first:
                place = f"{first[key].file}, document {first[key].index + 1}"
                raise InputError(f"{key} is there twice, first in {place}")  # noqa: TRY301 - gets its place below
            store.put(document.data, key)
        except InputError as error:
            raise document.fault((), str(error)) from None
        first[key] = document
    return store


def _key_of(document: SourceDocument, store: ObjectStore, namespace: str | None) -> ObjectKey:
    key = store.key_of(document.data)
    if key.namespace and not namespace_of(document.data):
        return key._replace(namespace=namespace or DEFAULT_NAMESPACE)
    return key


def _after_definitions(document: SourceDocument) -> bool:
    return bool(document.data.get("kind") != "CustomResourceDefinition")
