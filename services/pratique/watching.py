"""Noticing that files changed.

Files change in many ways: written in place, renamed over, or swapped with their whole folder by a symbolic link,
as Kubernetes does with ``..data`` in mounted ConfigMaps. So the folders around them are watched, every event
there is only a hint, and what counts is what ``stat`` says afterwards. A slow poll catches what no event told.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, TypeAlias

from watchfiles import awatch

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence
    from pathlib import Path

Fingerprint: TypeAlias = tuple[tuple[object, ...], ...]
"""What tells two states of files apart."""

POLL_SECONDS = 10.0
"""How often to look where no event comes, in seconds."""

_DEBOUNCE_MILLISECONDS = 100
_SETTLING_SECONDS = 0.1
_SETTLING_LOOKS = 20  # 2 s in all: a file that is written to for longer is read as it is


def fingerprint(paths: Sequence[Path]) -> Fingerprint:
    """Tell the state of files, and of the entries of folders, by what ``stat`` says of them."""
    return tuple((str(entry), *_stat(entry)) for path in paths for entry in (path, *_entries(path)))


async def watch(
    paths: Sequence[Path], *, seen: Fingerprint | None = None, poll_seconds: float = POLL_SECONDS
) -> AsyncGenerator[None]:
    """Yield every time that any of the files or folders has changed and has come to rest.

    Paths that do not exist are waited for. Close the iterator, or cancel its task, to stop.

    Args:
        paths: The files and folders.
        seen: The state that is known already; None takes the present one.
        poll_seconds: How often to look where no event comes.
    """
    seen = fingerprint(paths) if seen is None else seen
    while True:
        async with contextlib.aclosing(_hints(paths, poll_seconds)) as hints:
            async for _ in hints:
                current = await _settled(paths, seen)
                if current != seen:
                    break
        seen = current
        yield


async def _hints(paths: Sequence[Path], poll_seconds: float) -> AsyncGenerator[None]:
    """Yield at once, and then whenever something may have changed."""
    changes = awatch(
        *_folders(paths),
        watch_filter=None,
        debounce=_DEBOUNCE_MILLISECONDS,
        rust_timeout=round(poll_seconds * 1000),
        yield_on_timeout=True,
        recursive=False,
    )
    try:
        while True:
            # The watch begins when the task does; what changed before it did is noticed by the first look.
            change = asyncio.ensure_future(_next(changes, poll_seconds))
            try:
                await asyncio.sleep(0)
                yield
                await change
            finally:
                change.cancel()
                await asyncio.wait([change])
    finally:
        await changes.aclose()


async def _next(changes: AsyncIterator[object], poll_seconds: float) -> None:
    try:
        await anext(changes)
    except (OSError, RuntimeError, StopAsyncIteration):
        # A folder is gone, or the system has no watches left: polling alone must do.
        await asyncio.sleep(poll_seconds)


async def _settled(paths: Sequence[Path], seen: Fingerprint) -> Fingerprint:
    """Look until two looks agree, so that a file that is half written is not read."""
    current = fingerprint(paths)
    for _ in range(_SETTLING_LOOKS):
        if current == seen:
            break
        await asyncio.sleep(_SETTLING_SECONDS)
        before, current = current, fingerprint(paths)
        if before == current:
            break
    return current


def _folders(paths: Sequence[Path]) -> list[Path]:
    """The folders in which a change of the paths shows: around them, and around what they link to."""
    places = [place for path in paths for place in (path.absolute(), path.resolve())]
    folders = {folder for place in places for folder in (place, place.parent) if folder.is_dir()}
    return sorted(folders)


def _entries(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir())
    except OSError:
        return []


def _stat(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
