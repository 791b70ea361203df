"""Values loaded from files, which are loaded again when the files change. A bad change leaves the last good value.

Files change in many ways: written in place, renamed over, or swapped with their whole folder by a symbolic link, as
Kubernetes does with ``..data`` in mounted ConfigMaps. So the folders around them are watched, an event is only a hint,
and ``stat`` decides. A slow poll catches what no event reported.

Files that change while they are read are read again. A change that removes objects is accepted once the files have
stayed unchanged for a while, and a change that leaves a file without any object is refused: see
``docs/adr/0017-files-that-lose-objects.md``.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar, cast

from pratique.apimachinery.errors import InputError, PartlyUsableError, PratiqueError
from pratique.apimachinery.file_snapshots import FilesSnapshot, record_files
from pratique.apimachinery.manifest_files import walk
from pratique.telemetry.logs import describe_error
from pratique.telemetry.metrics import ReloadCounts

Fingerprint: TypeAlias = tuple[tuple[object, ...], ...]
"""A state of files, comparable with other states."""


class UnsettledFilesError(InputError):
    """Files keep changing."""


POLL_SECONDS = 10.0
"""How often to poll for changes without events, in seconds."""

SETTLED_SECONDS = 0.2
"""How long files must be unchanged before they are read: longer than programs pause while they write a file in pieces.
Files that are swapped three times a second are still read in between."""

UNSETTLED_SECONDS = 10.0
"""After this time, continuously changing files are reported; they are not loaded."""

_UNSETTLED = "the files keep changing; they are loaded once they settle"
_DEBOUNCE_MILLISECONDS = 100
_SETTLE_POLL_SECONDS = 0.1
_MTIME_INDEX = 5
"""The index of the modification time, in nanoseconds, in a file's part of a fingerprint."""


def fingerprint(paths: Sequence[Path]) -> Fingerprint:
    """The state of files, and of the manifests in folders, from ``stat``."""
    return tuple(part for path in paths for part in _state(path))


def _state(path: Path) -> Iterator[tuple[object, ...]]:
    if not path.is_dir():
        yield str(path), *_stat(path)
        return
    for entry, is_folder in _entries(path):
        # A folder's own times change with files that are not read, such as an editor's backup files.
        yield str(entry), *(_stat(entry)[:2] if is_folder else _stat(entry))


async def wait_until_settled(paths: Sequence[Path]) -> Fingerprint:
    """Wait until files have been unchanged for :data:`SETTLED_SECONDS`, and return their state.

    Both their modification times and two looks at them must say so.

    Raises:
        UnsettledFilesError: they kept changing for :data:`UNSETTLED_SECONDS`.
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
    """Wait for ``seconds``; False as soon as the files differ from the state ``seen``."""
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    while (left := end - clock()) > 0:
        await asyncio.sleep(min(left, _SETTLE_POLL_SECONDS))
        if await asyncio.to_thread(fingerprint, paths) != seen:
            return False
    return True


def block_until_settled(paths: Sequence[Path]) -> Fingerprint:
    """Block until files have been unchanged for :data:`SETTLED_SECONDS`, and return their state.

    Raises:
        UnsettledFilesError: they kept changing for :data:`UNSETTLED_SECONDS`.
    """
    begun = time.monotonic()
    while left := _seconds_until_settled(seen := fingerprint(paths)):
        if time.monotonic() - begun > UNSETTLED_SECONDS:
            raise UnsettledFilesError(_UNSETTLED)
        time.sleep(left)
    return seen


def _seconds_until_settled(seen: Fingerprint) -> float:
    """How long files must still stay unchanged, by their times; 0 if the times do not help."""
    age = time.time() - max((_changed_at(part) for part in seen), default=0.0)
    return SETTLED_SECONDS - age if 0 <= age < SETTLED_SECONDS else 0.0


def _changed_at(part: tuple[object, ...]) -> float:
    changed = part[_MTIME_INDEX] if len(part) > _MTIME_INDEX else 0
    return changed / 1e9 if isinstance(changed, int) else 0.0


async def watch(
    paths: Sequence[Path], *, seen: Fingerprint | None = None, poll_seconds: float = POLL_SECONDS
) -> AsyncGenerator[None]:
    """Yield whenever any of the files or folders has changed; :func:`wait_until_settled` waits for the end of it.

    A path need not exist yet. Close the iterator, or cancel its task, to stop.

    Args:
        paths: The files and folders.
        seen: The last known state; None means the current one.
        poll_seconds: How often to poll for changes without events.
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
    """Yield at once, and then whenever a file may have changed."""
    from watchfiles import awatch  # noqa: PLC0415 - many services have no files to watch

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
            # The watch begins when the task starts; the first comparison catches earlier changes.
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
        # A folder is gone, or the system is out of watches: fall back to polling.
        await asyncio.sleep(poll_seconds)


def _folders(paths: Sequence[Path]) -> list[Path]:
    """The folders to watch: around the paths and their link targets, and inside folders and subfolders."""
    inner = [entry for path in paths if path.is_dir() for entry, is_folder in _entries(path) if is_folder]
    places = [place for path in (*paths, *inner) for place in (path.absolute(), path.resolve())]
    folders = {folder for place in places for folder in (place, place.parent) if folder.is_dir()}
    return sorted(folders)


def _entries(folder: Path) -> list[tuple[Path, bool]]:
    found: list[tuple[Path, bool]] = []
    with contextlib.suppress(OSError):  # the folder is gone, which itself changes the fingerprint
        found.extend(walk(folder))
    return found


def _stat(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


T = TypeVar("T")

_log = logging.getLogger(__name__)

SUSPECT_SECONDS = 5.0
"""How long a file that may be half written must be unchanged: far longer than a writer pauses, yet short enough for
somebody who waits for an object to disappear.
"""


class Reloaded(Generic[T]):
    """A value loaded from files, with the state of its last reload."""

    def __init__(
        self, name: str, load: Callable[[], T], paths: Sequence[Path] | Callable[[], Sequence[Path]]
    ) -> None:
        """Load for the first time.

        Args:
            name: The name in logs and metrics, such as ``configuration``.
            load: Loads the value; reloads call it in a thread.
            paths: The files and folders that ``load`` reads. If files name further files, a function that returns
                those of the last attempt to load.

        Raises:
            Exception: whatever ``load`` raises.
        """
        self.name = name
        self._find_paths: Callable[[], Sequence[Path]] = paths if callable(paths) else lambda: paths
        self._load = load
        self.seen: Fingerprint = ()
        """The state of the files at the last load."""
        self.value: T
        self.value, self._snapshot = self._load_first()
        """The last good value."""
        self.failure = ""
        """Why the current files are unusable; empty if their value is in use."""
        self._logged = ""
        """What was last logged about a failure."""
        self.reloads = ReloadCounts(name)
        """Counts of successful and failed loads."""
        self._listeners: list[Callable[[T], Awaitable[None] | None]] = []

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files and folders that the value is loaded from."""
        return tuple(self._find_paths())

    def add_listener(self, listener: Callable[[T], Awaitable[None] | None]) -> None:
        """Call ``listener`` with every new value. If it raises, the value is refused."""
        self._listeners.append(listener)

    async def keep_current(self, suspend: Callable[[bool], None]) -> None:
        """Follow what is in no file until cancelled, and call ``suspend`` with whether it may be out of date.

        Without such things, return at once.
        """

    def warning(self) -> str:
        """A warning about unusable files; empty if there is none."""
        return self._logged if self.failure else ""

    async def refresh(self) -> None:
        """Load the files again once they have settled, and use the value if it is new and usable."""
        before = self.value
        try:
            value, snapshot = await self._read()
            if value != before:
                await self._use(value)
        except PartlyUsableError as error:
            await self._use_part(before, error)
        except (PratiqueError, OSError) as error:
            self._keep_previous(before, str(error))
        except Exception as error:  # noqa: BLE001 - no error may end the watch
            self._keep_previous(before, describe_error(error))
        else:
            self._snapshot = snapshot
            self._record_success(is_new=value != before)

    async def _read(self) -> tuple[T, FilesSnapshot]:
        """Load the files in a settled state.

        Raises:
            Exception: whatever ``load`` raises, or the files have lost all their objects.
        """
        while True:
            seen = self.seen = await wait_until_settled(self.paths)
            value, snapshot, error = await asyncio.to_thread(self._load_recording)
            if await asyncio.to_thread(fingerprint, self.paths) != seen:
                continue
            snapshot.check_after(self._snapshot)
            if error is not None:
                raise error
            doubt = snapshot.doubt_after(self._snapshot)
            if not doubt:
                return value, snapshot
            where = {
                "file": str(self.paths[0]) if self.paths else "",
                "reason": f"it may be half written: {doubt}",
            }
            _log.info("%s waits for its files to settle", self.name, extra=where)
            if await stay_unchanged(self.paths, seen, SUSPECT_SECONDS):
                return value, snapshot

    def _load_recording(self) -> tuple[Any, FilesSnapshot, Exception | None]:
        with record_files() as snapshot:
            try:
                return self._load(), snapshot, None
            except Exception as error:  # noqa: BLE001 - raised later, unless the files changed meanwhile
                return None, snapshot, error

    def _load_first(self) -> tuple[T, FilesSnapshot]:
        while True:
            self.seen = block_until_settled(self.paths)
            value, snapshot, error = self._load_recording()
            if fingerprint(self.paths) != self.seen:
                continue
            if error is not None:
                raise error
            for name in snapshot.empty_files:
                _log.warning("a file holds no objects", extra={"file": name})
            return value, snapshot

    async def _use(self, value: T) -> None:
        self.value = value
        for listener in self._listeners:
            pending = listener(value)
            if inspect.isawaitable(pending):
                await pending

    async def _use_part(self, before: T, error: PartlyUsableError) -> None:
        try:
            if error.usable != before:
                await self._use(cast("T", error.usable))
        except Exception as listener_error:  # noqa: BLE001 - as above
            self._keep_previous(before, describe_error(listener_error))
        else:
            self._record_failure(str(error), f"{self.name}: only the readable part of its files is in use")

    def _record_success(self, *, is_new: bool) -> None:
        self.reloads.succeed()
        if is_new or self.failure:
            self.failure = ""
            _log.info("%s reloaded", self.name, extra={"file": str(self.paths[0]) if self.paths else ""})

    def _keep_previous(self, before: T, reason: str) -> None:
        self.value = before
        self._record_failure(reason, f"{self.name} kept, the new one cannot be used")

    def _record_failure(self, reason: str, message: str) -> None:
        self.reloads.fail()
        if (reason, message) != (self.failure, self._logged):
            self.failure, self._logged = reason, message
            _log.error("%s", message, extra={"reason": reason})


async def keep_reloading(values: Sequence[Reloaded[Any]], *, poll_seconds: float = POLL_SECONDS) -> None:
    """Refresh every value whenever one of its files changes, until cancelled.

    Changes since the first load count too.
    """
    await asyncio.gather(
        *(_reload_on_change(reloaded, poll_seconds) for reloaded in values if reloaded.paths)
    )


async def _reload_on_change(reloaded: Reloaded[Any], poll_seconds: float) -> None:
    """Follow one value in its own task, so no value waits for another's files to settle."""
    while True:
        paths = reloaded.paths
        async with contextlib.aclosing(
            watch(paths, seen=reloaded.seen, poll_seconds=poll_seconds)
        ) as changes:
            async for _ in changes:
                # A previous refresh may have loaded this change already.
                if await asyncio.to_thread(fingerprint, reloaded.paths) != reloaded.seen:
                    await reloaded.refresh()
                if reloaded.paths != paths:
                    break  # other files are to be watched from now on
