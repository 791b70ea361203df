"""References: what a suite names or holds in a member, a file or an object, found and read."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING

from pratique.documents import read_documents, unwrap_lists
from pratique.errors import InputError
from pratique.json_values import json_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pratique.field_errors import Step
    from pratique.json_values import JSON
    from pratique.source_documents import SourceDocument


@dataclasses.dataclass(slots=True)
class References:
    """Reads what one suite names; what is wrong is collected."""

    document: SourceDocument
    """The suite's."""
    problems: list[InputError]
    """What is wrong, each with the place of the member that names it."""
    _files: dict[Path, SourceDocument | str] = dataclasses.field(default_factory=dict)
    """Files of one object that have been read, or why they cannot be: cases share them."""

    @property
    def folder(self) -> Path:
        """What paths are relative to."""
        return Path(self.document.file).parent

    def complain(self, path: Iterable[Step], problem: str) -> None:
        """Collect that a member is wrong."""
        self.problems.append(self.document.fault(tuple(path), problem))

    def path(self, text: str, path: tuple[Step, ...]) -> Path:
        """Find the file or folder that a member names."""
        found = Path(os.path.normpath(self.folder / text))
        if not text or not found.exists():
            self.complain(path, f"{found if text else 'an empty path'}: no such file or folder")
        return found

    def paths(self, texts: Iterable[str], path: tuple[Step, ...]) -> tuple[Path, ...]:
        """Find the files and folders that a list names."""
        return tuple(self.path(text, (*path, index)) for index, text in enumerate(texts))

    def document_of(self, value: JSON, path: tuple[Step, ...]) -> SourceDocument | None:
        """Read the one object that a member holds, or that is in the file that it names; None where there is none."""
        if isinstance(value, dict):
            return self.document.part(value, path)
        if not isinstance(value, str):
            self.complain(path, f"must be the path of a file or an object, not {json_type(value)}")
            return None
        file = Path(os.path.normpath(self.folder / value))
        if file not in self._files:
            self._files[file] = _only_document(file)
        found = self._files[file]
        if isinstance(found, str):
            self.complain(path, found)
            return None
        return found

    def object_of(self, value: JSON, path: tuple[Step, ...]) -> JSON:
        """The same, the object alone; None where the member is absent."""
        if value is None:
            return None
        found = self.document_of(value, path)
        return None if found is None else found.data


def _only_document(file: Path) -> SourceDocument | str:
    try:
        documents = list(unwrap_lists(read_documents(file)))
    except InputError as error:
        return str(error)
    if len(documents) != 1:
        return f"{file}: holds {len(documents)} objects; one is wanted here"
    return documents[0]
