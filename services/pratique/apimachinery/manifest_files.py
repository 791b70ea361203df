"""The files that a path stands for, as for ``kubectl apply -R -f``: a file is itself, a folder its manifests."""

from __future__ import annotations

import fnmatch
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.source_documents import STDIN

FOLDER_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
"""The extensions read from a folder; other files are read only when named themselves."""


MAX_TEXT_BYTES = 1024**3
"""The most bytes of a text, or of a line of JSON Lines: a cluster of 100,000 Pods takes half of it. A device may never
end."""
_PIECE_BYTES = 64 * 1024


def _too_long_error(file: str) -> InputError:
    return InputError(f"{file}: holds more than {MAX_TEXT_BYTES} bytes, too many to be read", file=file)


def read_whole(stream: BinaryIO, file: str, begun: bytes = b"") -> bytes:
    """Read what is left of a buffered file, after what was read of it.

    Raises:
        InputError: it does not end within :data:`MAX_TEXT_BYTES`.
        OSError: it cannot be read.
    """
    pieces, size, is_ended = [begun], len(begun), False
    while not is_ended:
        piece = stream.read(_PIECE_BYTES)
        # Asked again, a terminal would wait for another end of the input.
        is_ended = len(piece) < _PIECE_BYTES
        size += len(piece)
        if size > MAX_TEXT_BYTES:
            raise _too_long_error(file)
        pieces.append(piece)
    return b"".join(pieces)


def read_lines(stream: BinaryIO, file: str) -> Iterator[bytes]:
    """Read a file line by line, however many lines it has.

    Raises:
        InputError: a line does not end within :data:`MAX_TEXT_BYTES`.
        OSError: it cannot be read.
    """
    while line := stream.readline(_PIECE_BYTES):
        if len(line) == _PIECE_BYTES and not line.endswith(b"\n"):
            yield _rest_of_line(stream, file, line)
        else:
            yield line


def _rest_of_line(stream: BinaryIO, file: str, begun: bytes) -> bytes:
    pieces, size = [begun], len(begun)
    while piece := stream.readline(_PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_TEXT_BYTES:
            raise _too_long_error(file)
        if piece.endswith(b"\n"):
            break
    return b"".join(pieces)


def walk(folder: Path, excluded: Sequence[str] = ()) -> Iterator[tuple[Path, bool]]:
    """Yield a folder, its manifest files, and all subfolders with theirs; True marks a folder.

    Entries come in name order, files and subfolders mixed, as Go's ``filepath.Walk`` gives them to
    ``kubectl apply -R``. Hidden subfolders are skipped: ``.git`` holds no manifests, and in a mounted ConfigMap
    ``..data`` holds the same files again. Links to folders are followed; each folder is read once, so circular
    links end. Files and subfolders that match a pattern of ``excluded`` are skipped, too: see :func:`is_excluded`.

    Raises:
        OSError: a folder cannot be read.
    """
    return _walk(folder, set(), folder, excluded)


def _walk(folder: Path, walked: set[Path], top: Path, excluded: Sequence[str]) -> Iterator[tuple[Path, bool]]:
    real = folder.resolve()
    if real in walked:
        return
    walked.add(real)
    yield folder, True
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if excluded and is_excluded(entry.relative_to(top), excluded):
            continue
        if entry.is_dir():
            if not entry.name.startswith("."):
                yield from _walk(entry, walked, top, excluded)
        elif entry.suffix.lower() in FOLDER_SUFFIXES:
            yield entry, False


def is_excluded(path: Path, patterns: Sequence[str]) -> bool:
    """Whether a pattern matches a path below a folder: its name or, for a pattern with a slash, all of it.

    ``*`` stands for any characters, slashes included, ``?`` for one of them, and ``[ab]`` for one of these.
    """
    written = [pattern.removeprefix("./").rstrip("/") for pattern in patterns]
    return any(
        fnmatch.fnmatchcase(path.as_posix() if "/" in pattern else path.name, pattern) for pattern in written
    )


def list_files(path: Path | str, excluded: Sequence[str] = ()) -> list[str]:
    """List the files to read: those of a folder and its subfolders, or the path itself.

    Args:
        path: A file, a folder, or ``-``.
        excluded: Patterns of what to leave out of a folder, as for :func:`is_excluded`.

    Raises:
        InputError: the folder cannot be read, holds no such file, or a device or pipe with the name of one.
    """
    folder = Path(path)
    if str(path) == STDIN or not folder.is_dir():
        return [str(path)]
    try:
        files = [str(entry) for entry, is_folder in walk(folder, excluded) if not is_folder]
    except OSError as error:
        raise InputError(f"{error.filename or path}: {os_error_text(error)}", file=str(path)) from None
    if not files:
        raise InputError(f"{path}: {_no_files(folder, excluded)}", file=str(path))
    endless = next(filter(_may_be_endless, files), None)
    if endless is not None:
        raise InputError(
            f"{endless}: is a device or a pipe, which is read only where it is named", file=endless
        )
    return files


def holds_files(path: Path) -> bool:
    """Whether a path is a folder with any file to read in it or below; False where that cannot be found out."""
    try:
        return path.is_dir() and any(not is_folder for _, is_folder in walk(path))
    except OSError:
        return False


def _may_be_endless(file: str) -> bool:
    """Whether reading a file may never end: a link in a repository may lead to /dev/zero or to a terminal."""
    try:
        mode = Path(file).stat().st_mode
    except OSError:
        return False  # whoever reads it tells why it cannot be read
    return not (stat.S_ISREG(mode) or stat.S_ISSOCK(mode))


def _no_files(folder: Path, excluded: Sequence[str]) -> str:
    problem = "holds no .yaml, .yml or .json file, and neither do its subfolders"
    return f"{problem}, without what is excluded" if excluded else problem + _other_files_hint(folder)


def _other_files_hint(folder: Path) -> str:
    """Name a file with another extension, which explains why nothing was read."""
    names = sorted(entry.name for entry in folder.iterdir() if not entry.is_dir())
    return f"; files with other endings, such as {names[0]}, are not read" if names else ""


def os_error_text(error: OSError) -> str:
    """Say in lower case why the operating system refused a file."""
    if isinstance(error, FileNotFoundError):
        return "no such file or folder"
    return (error.strerror or str(error)).lower()
