"""Reloading: what was made of files, made anew when they change. A bad change leaves what was there.

What changes while it is read is read again. A change that takes objects away is believed once the files have rested
for :data:`DOUBTED_SECONDS`, and one that leaves a file without any is refused: see
``docs/adr/0017-files-that-lose-objects.md``.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from pratique.apimachinery.errors import PartlyUsableError, PratiqueError
from pratique.apimachinery.readings import record_files
from pratique.telemetry.file_metrics import ReloadCounts
from pratique.telemetry.logs import describe_error
from pratique.telemetry.watching import POLL_SECONDS, fingerprint, wait_until_settled, block_until_settled, stay_unchanged, watch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from pratique.apimachinery.readings import FilesSnapshot
    from pratique.telemetry.watching import Fingerprint

T = TypeVar("T")

_log = logging.getLogger(__name__)

SUSPECT_SECONDS = 5.0
"""For how long files must not have changed that may be half written: far longer than any writer pauses that still
writes, and not too long for somebody who waits for an object to be gone.
"""


class Reloaded(Generic[T]):
    """One thing made of files, and how it is with it."""

    def __init__(self, name: str, load: Callable[[], T], paths: Sequence[Path]) -> None:
        """Load for the first time.

        Args:
            name: For people and metrics, such as ``configuration``.
            load: Makes the value; called in a thread when it is called again.
            paths: The files and folders that it reads.

        Raises:
            Exception: whatever ``load`` raises.
        """
        self.name = name
        self.paths = tuple(paths)
        self._load = load
        self.seen: Fingerprint = ()
        """The state of the files when they were last read."""
        self.value: T
        self.value, self._reading = self._load_first()
        """The last good one."""
        self.failure = ""
        """Why what is in the files now cannot be used; empty where it is what is used."""
        self._said = ""
        """What was said of it in the log."""
        self.reloads = ReloadCounts(name)
        """How often it could be used, and how often not."""
        self._listeners: list[Callable[[T], Awaitable[None] | None]] = []

    def tell(self, listener: Callable[[T], Awaitable[None] | None]) -> None:
        """Tell ``listener`` of every value to come. One that raises refuses the value."""
        self._listeners.append(listener)

    def warning(self) -> str:
        """Why somebody should look at it before long; empty where there is no reason."""
        return self._said if self.failure else ""

    async def refresh(self) -> None:
        """Take up what is in the files now, once they rest, where it is something else that can be used."""
        before = self.value
        try:
            value, reading = await self._read()
            if value != before:
                await self._take_up(value)
        except PartlyUsableError as error:
            await self._take_part(before, error)
        except (PratiqueError, OSError) as error:
            self._keep(before, str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the watch over the files must not end by it
            self._keep(before, describe_error(error))
        else:
            self._reading = reading
            self._succeed(is_new=value != before)

    async def _read(self) -> tuple[T, FilesSnapshot]:
        """Read the files as they are while they rest.

        Raises:
            Exception: whatever ``load`` raises, or what was read is not to be believed.
        """
        while True:
            seen = self.seen = await wait_until_settled(self.paths)
            value, reading, error = await asyncio.to_thread(self._load_noting)
            if await asyncio.to_thread(fingerprint, self.paths) != seen:
                continue
            reading.check_after(self._reading)
            if error is not None:
                raise error
            doubt = reading.doubt_after(self._reading)
            if not doubt:
                return value, reading
            where = {"file": str(self.paths[0]), "reason": f"it may be half written: {doubt}"}
            _log.info("%s waits for its files to rest", self.name, extra=where)
            if await stay_unchanged(self.paths, seen, SUSPECT_SECONDS):
                return value, reading

    def _load_noting(self) -> tuple[Any, FilesSnapshot, Exception | None]:
        with record_files() as reading:
            try:
                return self._load(), reading, None
            except Exception as error:  # noqa: BLE001 - it is raised where the files have not changed meanwhile
                return None, reading, error

    def _load_first(self) -> tuple[T, FilesSnapshot]:
        while True:
            self.seen = block_until_settled(self.paths)
            value, reading, error = self._load_noting()
            if fingerprint(self.paths) != self.seen:
                continue
            if error is not None:
                raise error
            for name in reading.empty_files:
                _log.warning("a file holds no objects", extra={"file": name})
            return value, reading

    async def _take_up(self, value: T) -> None:
        self.value = value
        for listener in self._listeners:
            told = listener(value)
            if inspect.isawaitable(told):
                await told

    async def _take_part(self, before: T, error: PartlyUsableError) -> None:
        try:
            if error.usable != before:
                await self._take_up(cast("T", error.usable))
        except Exception as told:  # noqa: BLE001 - as above
            self._keep(before, describe_error(told))
        else:
            self._fail(str(error), f"{self.name}: only what can be read of the files counts")

    def _succeed(self, *, is_new: bool) -> None:
        self.reloads.succeed()
        if is_new or self.failure:
            self.failure = ""
            _log.info("%s reloaded", self.name, extra={"file": str(self.paths[0])})

    def _keep(self, before: T, reason: str) -> None:
        self.value = before
        self._fail(reason, f"{self.name} kept, the new one cannot be used")

    def _fail(self, reason: str, message: str) -> None:
        self.reloads.fail()
        if (reason, message) != (self.failure, self._said):
            self.failure, self._said = reason, message
            _log.error("%s", message, extra={"reason": reason})


async def keep_reloading(values: Sequence[Reloaded[Any]], *, poll_seconds: float = POLL_SECONDS) -> None:
    """Refresh each whenever a file of its own changes, until cancelled.

    A change since they were first loaded is noticed, too.
    """
    await asyncio.gather(*(_reload_on_change(one, poll_seconds) for one in values if one.paths))


async def _reload_on_change(one: Reloaded[Any], poll_seconds: float) -> None:
    """Each by itself, so that nobody waits while another one's files come to rest."""
    async with contextlib.aclosing(watch(one.paths, seen=one.seen, poll_seconds=poll_seconds)) as changes:
        async for _ in changes:
            # A refresh reads what has come after the change that was its reason, too.
            if await asyncio.to_thread(fingerprint, one.paths) != one.seen:
                await one.refresh()
