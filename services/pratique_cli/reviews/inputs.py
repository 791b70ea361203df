"""Reading the input of ``pratique review``, document by document."""

from __future__ import annotations

import collections
import enum
import itertools
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, TypeAlias

import msgspec

from pratique.apimachinery.documents import (
    JSON_LINES,
    YamlValues,
    is_plain_yaml,
    read_documents,
    read_line,
    read_source_text,
)
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.manifest_files import list_files, read_lines, read_whole
from pratique.apimachinery.names import DEFAULT_NAMESPACE, namespace_of
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.source_documents import (
    STDIN,
    SourceDocument,
    SourceText,
    display_path,
    unwrap_lists,
)
from pratique.cluster.api_resources import ApiResources
from pratique.cluster.store import ObjectKey, ObjectStore
from pratique_cli.progress import Progress

Input: TypeAlias = "SourceDocument | InputError"
"""A document, or why it cannot be read."""

_JSON = (b"{", b"[")
_YAML_BREAK = pattern(rb"^---(?=\s|\Z)", re.MULTILINE)
"""The start of a YAML document. No other line can start like this, not even in a block scalar (``c-forbidden``)."""
_JSON_BREAK = pattern(rb"^(?=[{\[])", re.MULTILINE)
"""Where the next JSON value may begin, in a stream that cannot be read as a whole."""
_DIRECTIVE = pattern(rb"^%(?:YAML|TAG)\s", re.MULTILINE)
_RENDERED_FROM = pattern(rb"(?:---[ \t]*\r?\n|#[^\n]*\n|\s)*?# Source: ([^\s][^\r\n]*)\r?\n")
"""The comment in which ``helm template`` names the template of a document, before anything else in it."""


class PartKind(enum.Enum):
    """What a part of an input is."""

    STREAM = enum.auto()
    """Nothing but a mark: a stream comes next, which must not be waited for while there is something to do."""
    LINE = enum.auto()
    """A line of JSON Lines."""
    PIECE = enum.auto()
    """A document of a YAML text, or a value of a broken JSON text."""
    WHOLE = enum.auto()
    """A text of JSON, or of YAML in JSON's style."""
    PROBLEM = enum.auto()
    """Nothing but the reason why something cannot be read."""
    END = enum.auto()
    """Nothing but a mark: the end of a path, which may have held no documents."""


class Part(msgspec.Struct, frozen=True):
    """A part of an input that is read by itself."""

    kind: PartKind
    text: SourceText
    """Its text; for what has none, only the file is of use."""
    follows: bool = False
    """Whether its documents are counted on from those of the part before."""
    problem: InputError | None = None
    """What the input is instead, for a problem."""
    may_block: bool = False
    """Whether the part after it comes from a stream, which may have yet to send it."""

    @property
    def is_yaml(self) -> bool:
        """Whether what it holds can be read ahead, as YAML."""
        return self.kind is PartKind.PIECE and is_plain_yaml(self.text)


PartValues: TypeAlias = "tuple[Part, YamlValues | None]"
"""A part, and what its YAML holds if that has been read ahead."""


def read_inputs(path: Path | str, stdin: BinaryIO | None = None) -> Iterator[Input]:
    """Read a file, the files of a folder in name order, or standard input (``-``).

    If the first line is a JSON value, the input is read as JSON Lines; otherwise as JSON or YAML as a whole. Lists are
    unwrapped.
    """
    return read_parts((part, None) for part in parts_of([path], stdin))


def read_inputs_with_progress(paths: Sequence[Path], progress: Progress) -> Iterator[Input]:
    """Read inputs one after another, and tell how far that is."""
    return read_parts(tell_progress(((part, None) for part in parts_of(paths)), paths, progress))


def tell_progress(
    parts: Iterable[PartValues], paths: Iterable[Path], progress: Progress, excluded: Sequence[str] = ()
) -> Iterable[PartValues]:
    """Pass the parts of ``paths`` on, and tell how many of their bytes are done, if anybody sees it."""
    if not progress.is_shown:
        return parts
    progress.expect(_total_bytes(paths, excluded))
    return _telling(parts, progress)


def _telling(parts: Iterable[PartValues], progress: Progress) -> Iterator[PartValues]:
    for part, values in parts:
        yield part, values
        progress.advance(len(part.text.raw))


def _total_bytes(paths: Iterable[Path], excluded: Sequence[str]) -> int:
    """How many bytes all files hold; 0 if that is unknown, as of a stream."""
    total = 0
    for path in paths:
        try:
            files = list_files(path, excluded) if str(path) != STDIN else []
            found = [os.stat(file) for file in files]  # noqa: PTH116 - a Path costs more than the call
        except (InputError, OSError):
            return 0  # reading tells the problem
        if not found or not all(stat.S_ISREG(one.st_mode) for one in found):
            return 0
        total += sum(one.st_size for one in found)
    return total


def parts_of(
    paths: Iterable[Path | str],
    stdin: BinaryIO | None = None,
    stdin_name: str = STDIN,
    excluded: Sequence[str] = (),
) -> Iterator[Part]:
    """Divide inputs into parts, in order, without reading the parts themselves.

    ``stdin_name`` is the file that standard input is taken for; what matches ``excluded`` is left out of folders.
    """
    for path in paths:
        yield from _parts_of_path(
            str(path), sys.stdin.buffer if stdin is None else stdin, stdin_name, excluded
        )
        yield Part(PartKind.END, SourceText(b"", str(path)))


def read_parts(parts: Iterable[PartValues]) -> Iterator[Input]:
    """Read the parts of inputs, as :func:`read_inputs` does."""
    found, index = False, 0
    for part, values in parts:
        if part.kind is PartKind.END:
            if not found:
                yield _no_documents(part.text.file)
            found = False
            continue
        index = index if part.follows else part.text.first_index
        for document in _read_part(part, index, values):
            found = True
            index += 1
            yield from [document] if isinstance(document, InputError) else _unwrap(document)


def _no_documents(path: str) -> InputError:
    problem = "holds no documents; expected an AdmissionReview or a Kubernetes object"
    return InputError(f"{display_path(path)}: {problem}", file=path)


def _parts_of_path(path: str, stdin: BinaryIO, stdin_name: str, excluded: Sequence[str]) -> Iterator[Part]:
    if path == STDIN:
        yield Part(PartKind.STREAM, SourceText(b"", stdin_name), may_block=True)
        try:
            yield from _named_by_helm(_parts_of_stream(stdin, stdin_name, may_block=True))
        except InputError as error:
            yield _problem(error, stdin_name)
        return
    try:
        files = list_files(path, excluded)
    except InputError as error:
        yield _problem(error, path)
        return
    for file in files:
        try:
            is_stream = not stat.S_ISREG(os.stat(file).st_mode)  # noqa: PTH116 - a Path costs more than the call
            if is_stream:
                yield Part(PartKind.STREAM, SourceText(b"", file), may_block=True)
            with Path(file).open("rb") as stream:
                yield from _parts_of_stream(stream, file, may_block=is_stream)
        except InputError as error:
            yield _problem(error, file)
        except OSError as error:
            yield _problem(InputError(f"{file}: {(error.strerror or str(error)).lower()}", file=file), file)


def _problem(error: InputError, file: str) -> Part:
    return Part(PartKind.PROBLEM, SourceText(b"", file), problem=error)


def _parts_of_stream(stream: BinaryIO, file: str, *, may_block: bool) -> Iterator[Part]:
    index = 0
    for number, line in enumerate(read_lines(stream, file), start=1):
        text = SourceText(line, file, number, index)
        if line.isspace():
            continue
        if not file.endswith(JSON_LINES) and (_YAML_BREAK.match(line) if index else not _is_value(text)):
            yield from _parts_of_whole(SourceText(read_whole(stream, file, line), file, number, index))
            return
        # JSON Lines: a line that is not a JSON object is an unreadable document.
        yield Part(PartKind.LINE, SourceText(line.rstrip(), file, number, index), may_block=may_block)
        index += 1


def _named_by_helm(parts: Iterable[Part]) -> Iterator[Part]:
    """Name the parts of a stream by the templates that Helm rendered them from.

    Lines of such a part count from the line after Helm's comment, which is where the template's own text begins.
    """
    documents: collections.Counter[str] = collections.Counter()
    for part in parts:
        found = _RENDERED_FROM.match(part.text.raw) if part.kind is PartKind.PIECE else None
        if found is None:
            yield part
            continue
        file = found[1].decode(errors="replace").strip()
        first_line = 1 - part.text.raw.count(b"\n", 0, found.end())
        text = SourceText(part.text.raw, file, first_line, documents[file])
        documents[file] += 1
        yield msgspec.structs.replace(part, text=text, follows=False)


def _is_value(text: SourceText) -> bool:
    try:
        return read_line(text) is not None
    except InputError:
        return True


def _parts_of_whole(text: SourceText) -> Iterator[Part]:
    if text.raw.lstrip().startswith(_JSON):
        yield Part(PartKind.WHOLE, text)
    else:
        yield from _pieces(_split_yaml(text), text.first_index)


def _pieces(texts: Iterable[SourceText], first_index: int) -> Iterator[Part]:
    for number, piece in enumerate(texts):
        yield Part(
            PartKind.PIECE, SourceText(piece.raw, piece.file, piece.first_line, first_index), number > 0
        )


def _read_part(part: Part, index: int, values: YamlValues | None) -> Iterator[Input]:
    """Read a part whose first document has an index."""
    if part.problem is not None:
        yield part.problem
    elif part.kind is PartKind.WHOLE:
        yield from _read_whole(part.text)
    elif part.kind is not PartKind.STREAM:
        text = part.text
        yield from _read_piece(SourceText(text.raw, text.file, text.first_line, index), values)


def _read_whole(text: SourceText) -> Iterator[Input]:
    try:
        documents = list(read_source_text(text))
    except InputError:
        beginning = _YAML_BREAK if _YAML_BREAK.search(text.raw) else _JSON_BREAK
        index = text.first_index
        for piece in _split(text, beginning):
            for document in _read_piece(SourceText(piece.raw, piece.file, piece.first_line, index)):
                yield document
                index += 1
    else:
        yield from documents


def _read_piece(piece: SourceText, values: YamlValues | None = None) -> Iterator[Input]:
    try:
        yield from read_source_text(piece, values=values)
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
