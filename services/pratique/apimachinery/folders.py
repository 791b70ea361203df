"""Folders: which of their files are read, by whoever takes a file or a folder.

Subfolders are read, too. Hidden ones are not: ``.git`` holds nothing to read, and in a mounted ConfigMap ``..data``
holds the same files once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDER_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
"""The files of a folder that are read; others are read only where they are named."""


def walk(folder: Path) -> Iterator[tuple[Path, bool]]:
    """Yield a folder, its files that are read, and all subfolders with theirs; True marks a folder.

    Entries come in the order of their names, files and subfolders mixed, as Go's ``filepath.Walk`` gives them to
    ``kubectl apply -R``. Links to folders are followed. Each folder is read once, so that links in a circle end.

    Raises:
        OSError: a folder cannot be read.
    """
    return _walk(folder, set())


def _walk(folder: Path, walked: set[Path]) -> Iterator[tuple[Path, bool]]:
    real = folder.resolve()
    if real in walked:
        return
    walked.add(real)
    yield folder, True
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            if not entry.name.startswith("."):
                yield from _walk(entry, walked)
        elif entry.suffix.lower() in FOLDER_SUFFIXES:
            yield entry, False
