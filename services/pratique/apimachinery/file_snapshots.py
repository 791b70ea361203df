"""What a load found in each file, so that the next load can be compared with it."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pratique.apimachinery.errors import ConfigurationError, InputError
from pratique.apimachinery.field_errors import Step
from pratique.apimachinery.json_values import JSON, json_type
from pratique.apimachinery.source_documents import SourceDocument

if TYPE_CHECKING:
    from typing import BinaryIO


def unwrap_lists(documents: Iterable[SourceDocument]) -> Iterator[SourceDocument]:
    """Replace every list (``kind: List``, ``PodList`` and so on) by its items.

    An item without ``kind`` and ``apiVersion`` takes them from its list, as in
    ``k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/helpers.go``.

    Raises:
        InputError: the ``items`` of a list are not a list of objects.
    """
    for document in documents:
        if is_list(document.data):
            yield from unwrap_lists(_items(document))
        else:
            yield document


def is_list(data: JSON) -> bool:
    """True for ``kind: List``, and for every other kind that ends so and has ``items``."""
    kind = data.get("kind")
    return kind == "List" or (isinstance(kind, str) and kind.endswith("List") and "items" in data)


def _items(document: SourceDocument) -> Iterator[SourceDocument]:
    items = document.data.get("items") or []
    if not isinstance(items, list):
        raise document.fault(("items",), f"items must be a list, got {json_type(items)}")
    inherited = {
        "apiVersion": document.data.get("apiVersion"),
        "kind": document.data["kind"].removesuffix("List"),
    }
    for index, item in enumerate(items):
        path: tuple[Step, ...] = ("items", index)
        if not isinstance(item, dict):
            raise document.fault(path, f"items[{index}] must be an object, got {json_type(item)}")
        named = item.get("kind") or item.get("apiVersion")
        yield document.part(item if named else {**item, **inherited}, path)


ObjectIdentity: TypeAlias = tuple[str, str, str]
"""Kind, namespace and name: by these an object is still there, whatever has changed in it."""

_MAX_NAMED = 3
"""How many objects a text names; it says how many more there are."""


@dataclasses.dataclass(slots=True)
class FileSnapshot:
    """What one file held."""

    content: bytes
    objects: set[ObjectIdentity] = dataclasses.field(default_factory=set)
    is_empty_on_purpose: bool = False
    """It holds a list with ``items: []``: somebody wrote down that there is nothing."""

    @property
    def is_silently_empty(self) -> bool:
        """It holds no object, and does not say so."""
        return not self.objects and not self.is_empty_on_purpose

    def may_be_cut_off(self, before: FileSnapshot) -> bool:
        """True where this is the beginning of what it was before, or does not end its last line as that did."""
        if len(self.content) < len(before.content) and before.content.startswith(self.content):
            return True
        return before.content.endswith(b"\n") and not self.content.endswith(b"\n")

    def note(self, document: SourceDocument) -> None:
        """Add the objects of a document."""
        if is_list(document.data) and document.data.get("items") == []:
            self.is_empty_on_purpose = True
        # Whoever reads the document says what is wrong with such a list.
        with contextlib.suppress(InputError):
            self.objects |= {_identity_of(each.data) for each in unwrap_lists([document])}


def _identity_of(data: JSON) -> ObjectIdentity:
    metadata = data.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return str(data.get("kind")), str(metadata.get("namespace", "")), str(metadata.get("name"))


@dataclasses.dataclass(slots=True)
class FilesSnapshot:
    """What all files held."""

    files: dict[str, FileSnapshot] = dataclasses.field(default_factory=dict)

    @property
    def objects(self) -> set[ObjectIdentity]:
        """All objects of all files."""
        return set().union(*(file.objects for file in self.files.values()))

    @property
    def empty_files(self) -> list[str]:
        """The files that hold no object, and do not say so."""
        return [name for name, file in self.files.items() if file.is_silently_empty]

    @property
    def folders(self) -> set[str]:
        """The folders of all files."""
        return {str(Path(name).parent) for name in self.files}

    def check_after(self, before: FilesSnapshot) -> None:
        """Refuse to follow ``before`` where a file or folder that held objects has become empty.

        A folder is empty while what it holds is mounted anew.

        Raises:
            ConfigurationError: one has. The text has a line for each, and says how to ask for it.
        """
        problems = [
            f"{name}: holds no objects any more, and held {len(held.objects)} before; to remove them, delete the file "
            'from its folder, or write "apiVersion: v1", "kind: List" and "items: []" into it'
            for name, held in before.files.items()
            if held.objects and name in self.files and self.files[name].is_silently_empty
        ]
        problems += [
            f'{folder}: holds no files any more; to remove what they held, leave one with "kind: List" and "items: []"'
            for folder in sorted(before.folders - self.folders)
            if Path(folder).is_dir()
        ]
        if problems:
            raise ConfigurationError("\n".join(problems))

    def doubt_after(self, before: FilesSnapshot) -> str:
        """Say why this may be what a half-written file holds; empty where nothing speaks for it."""
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
    """Note what is read in this context until the block ends."""
    reading = FilesSnapshot()
    token = _current.set(reading)
    try:
        yield reading
    finally:
        _current.reset(token)


def read_recorded(
    file: str, stream: BinaryIO, read: Callable[[BinaryIO], Iterator[SourceDocument]]
) -> Iterator[SourceDocument]:
    """Read the documents of a file, and note them where somebody wants that."""
    reading = _current.get()
    if reading is None:
        yield from read(stream)
        return
    noted_file = reading.files[file] = FileSnapshot(stream.read())
    for document in read(io.BytesIO(noted_file.content)):
        noted_file.note(document)
        yield document
