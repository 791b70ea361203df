"""Noticing that files changed.

Files change in many ways: written in place, renamed over, or swapped with their whole folder by a symbolic link,
as Kubernetes does with ``..data`` in mounted ConfigMaps. So the folders around them are watched, every event
there is only a hint, and what counts is what ``stat`` says afterwards. A slow poll catches what no event told.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, TypeAlias

from watchfiles import awatch

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.folders import walk

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
    from pathlib import Path

Fingerprint: TypeAlias = tuple[tuple[object, ...], ...]
"""What tells two states of files apart."""


class UnsettledFilesError(InputError):
    """Files do not come to rest."""


POLL_SECONDS = 10.0
"""How often to look where no event comes, in seconds."""

SETTLED_SECONDS = 0.2
"""For how long files must not have changed before they are read: longer than programs take between the pieces of a file
that they write in place. Files that somebody swaps three times a second are still read in between."""

UNSETTLED_SECONDS = 10.0
"""From here on it is said that files change all the time, and that what is in them is not taken up."""

_UNSETTLED = "the files change all the time; they are read once they rest"
_DEBOUNCE_MILLISECONDS = 100
_SETTLE_POLL_SECONDS = 0.1
_MTIME_INDEX = 5
"""Where the part of a fingerprint that is a file has the time of its last change, in nanoseconds."""


def fingerprint(paths: Sequence[Path]) -> Fingerprint:
    """Tell the state of files, and of what is read of folders, by what ``stat`` says of them."""
    return tuple(part for path in paths for part in _state(path))


def _state(path: Path) -> Iterator[tuple[object, ...]]:
    if not path.is_dir():
        yield str(path), *_stat(path)
        return
    for entry, is_folder in _entries(path):
        # A folder's own times tell of files that nobody reads, such as those that an editor writes beside.
        yield str(entry), *(_stat(entry)[:2] if is_folder else _stat(entry))


async def wait_until_settled(paths: Sequence[Path]) -> Fingerprint:
    """Wait until files have not changed for :data:`REST_SECONDS`, by their times and by two looks; give their state.

    Raises:
        UnrestError: they changed again and again for :data:`UNREST_SECONDS`.
    """
    clock = asyncio.get_running_loop().time
    begun = clock()
    seen = await asyncio.to_thread(fingerprint, paths)
    while not await stay_unchanged(paths, seen, max(_SETTLE_POLL_SECONDS, _seconds_until_settled(seen))):
        if clock() - begun > UNSETTLED_SECONDS:
            raise UnsettledFilesError(_UNSETTLED)
        seen = await asyncio.to_thread(fingerprint, paths)
    return seen


async def stay_unchanged(paths: Sequence[Path], seen: Fingerprint, seconds: float) -> bool:
    """Wait for ``seconds``, and tell whether the files have stayed as they were seen."""
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    while (left := end - clock()) > 0:
        await asyncio.sleep(min(left, _SETTLE_POLL_SECONDS))
        if await asyncio.to_thread(fingerprint, paths) != seen:
            return False
    return True


def block_until_settled(paths: Sequence[Path]) -> Fingerprint:
    """Sleep until files have not changed for :data:`REST_SECONDS`, by their times and the clock; give their state.

    Raises:
        UnrestError: they changed again and again for :data:`UNREST_SECONDS`.
    """
    begun = time.monotonic()
    while left := _seconds_until_settled(seen := fingerprint(paths)):
        if time.monotonic() - begun > UNSETTLED_SECONDS:
            raise UnsettledFilesError(_UNSETTLED)
        time.sleep(left)
    return seen


def _seconds_until_settled(seen: Fingerprint) -> float:
    """How long files have to stay as they are until they have rested, by their times; 0 where these are no help."""
    age = time.time() - max((_changed_at(part) for part in seen), default=0.0)
    return SETTLED_SECONDS - age if 0 <= age < SETTLED_SECONDS else 0.0


def _changed_at(part: tuple[object, ...]) -> float:
    changed = part[_MTIME_INDEX] if len(part) > _MTIME_INDEX else 0
    return changed / 1e9 if isinstance(changed, int) else 0.0


async def watch(
    paths: Sequence[Path], *, seen: Fingerprint | None = None, poll_seconds: float = POLL_SECONDS
) -> AsyncGenerator[None]:
    """Yield every time that any of the files or folders has changed. :func:`rest` waits until that has ended.

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
                current = await asyncio.to_thread(fingerprint, paths)
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
            change = asyncio.ensure_future(_next_change(changes, poll_seconds))
            try:
                await asyncio.sleep(0)
                yield
                await change
            finally:
                change.cancel()
                await asyncio.wait([change])
    finally:
        await changes.aclose()


async def _next_change(changes: AsyncIterator[object], poll_seconds: float) -> None:
    try:
        await anext(changes)
    except (OSError, RuntimeError, StopAsyncIteration):
        # A folder is gone, or the system has no watches left: polling alone must do.
        await asyncio.sleep(poll_seconds)


def _folders(paths: Sequence[Path]) -> list[Path]:
    """The folders in which a change of the paths shows: around them, inside them, and around what they link to."""
    inner = [entry for path in paths if path.is_dir() for entry, is_folder in _entries(path) if is_folder]
    places = [place for path in (*paths, *inner) for place in (path.absolute(), path.resolve())]
    folders = {folder for place in places for folder in (place, place.parent) if folder.is_dir()}
    return sorted(folders)


def _entries(folder: Path) -> list[tuple[Path, bool]]:
    found: list[tuple[Path, bool]] = []
    with contextlib.suppress(OSError):  # it has gone meanwhile; what was found before it has changed, too
        found.extend(walk(folder))
    return found


def _stat(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
