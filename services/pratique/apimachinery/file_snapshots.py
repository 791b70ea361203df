"""What a load found in each file, so that the next load can be compared with it."""

from __future__ import annotations

import contextlib
import contextvars
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeAlias

import msgspec

from pratique.apimachinery.errors import ConfigurationError, InputError
from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.manifest_files import read_whole
from pratique.apimachinery.source_documents import SourceDocument, is_list, unwrap_lists

ObjectIdentity: TypeAlias = tuple[str, str, str]
"""Kind, namespace and name: an object with the same three is the same object."""

_MAX_NAMED = 3
"""How many objects a message names; it counts the rest."""


class FileSnapshot(msgspec.Struct):
    """What one file held when it was read."""

    content: bytes
    objects: set[ObjectIdentity] = msgspec.field(default_factory=set)
    is_empty_on_purpose: bool = False
    """It holds a list with ``items: []``, which states that there are no objects."""

    @property
    def is_silently_empty(self) -> bool:
        """It holds no objects, and does not state so."""
        return not self.objects and not self.is_empty_on_purpose

    def may_be_cut_off(self, before: FileSnapshot) -> bool:
        """Tell whether it is a prefix of its previous content, or has lost the newline at its end."""
        if len(self.content) < len(before.content) and before.content.startswith(self.content):
            return True
        return before.content.endswith(b"\n") and not self.content.endswith(b"\n")

    def record(self, document: SourceDocument) -> None:
        """Record the objects of a document."""
        if is_list(document.data) and document.data.get("items") == []:
            self.is_empty_on_purpose = True
        # The caller that reads the document reports a malformed list.
        with contextlib.suppress(InputError):
            self.objects |= {_identity_of(item.data) for item in unwrap_lists([document])}


def _identity_of(data: JSON) -> ObjectIdentity:
    metadata = data.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return str(data.get("kind")), str(metadata.get("namespace", "")), str(metadata.get("name"))


class FilesSnapshot(msgspec.Struct):
    """What all files held when they were read."""

    files: dict[str, FileSnapshot] = msgspec.field(default_factory=dict)

    @property
    def objects(self) -> set[ObjectIdentity]:
        """The objects of all files."""
        return set().union(*(file.objects for file in self.files.values()))

    @property
    def empty_files(self) -> list[str]:
        """The files that hold no objects, and do not state so."""
        return [name for name, file in self.files.items() if file.is_silently_empty]

    @property
    def folders(self) -> set[str]:
        """The folders of all files."""
        return {str(Path(name).parent) for name in self.files}

    def check_after(self, before: FilesSnapshot) -> None:
        """Refuse this snapshot if a file or folder that held objects in ``before`` has become empty.

        A folder is empty for a moment while its volume is mounted again.

        Raises:
            ConfigurationError: one has become empty. The message has a line for each, and says how to do so on purpose.
        """
        problems = [
            f"{name}: no longer holds any objects, but held {len(held.objects)} before; to remove them, delete the "
            'file from its folder, or write "apiVersion: v1", "kind: List" and "items: []" into it'
            for name, held in before.files.items()
            if held.objects and name in self.files and self.files[name].is_silently_empty
        ]
        problems += [
            f"{folder}: no longer holds any files; to remove what they held, leave one with "
            '"kind: List" and "items: []"'
            for folder in sorted(before.folders - self.folders)
            if Path(folder).is_dir()
        ]
        if problems:
            raise ConfigurationError("\n".join(problems))

    def doubt_after(self, before: FilesSnapshot) -> str:
        """Say why a file may be half written; empty if nothing suggests it."""
        lost = sorted(before.objects - self.objects)
        if lost:
            named = ", ".join(f"{kind} {name}" for kind, _, name in lost[:_MAX_NAMED])
            more = f" and {len(lost) - _MAX_NAMED} more" if len(lost) > _MAX_NAMED else ""
            return f"without {named}{more}"
        for name, file in self.files.items():
            if name in before.files and file.may_be_cut_off(before.files[name]):
                return f"{name} ends early"
        return ""


_current: contextvars.ContextVar[FilesSnapshot | None] = contextvars.ContextVar("reading", default=None)


@contextlib.contextmanager
def record_files() -> Iterator[FilesSnapshot]:
    """Record the files that are read in this context until the block ends."""
    reading = FilesSnapshot()
    token = _current.set(reading)
    try:
        yield reading
    finally:
        _current.reset(token)


def read_recorded(
    file: str, stream: BinaryIO, read: Callable[[BinaryIO], Iterator[SourceDocument]]
) -> Iterator[SourceDocument]:
    """Read the documents of a file, and record them inside :func:`record_files`."""
    reading = _current.get()
    if reading is None:
        yield from read(stream)
        return
    recorded = reading.files[file] = FileSnapshot(read_whole(stream, file))
    for document in read(io.BytesIO(recorded.content)):
        recorded.record(document)
        yield document
