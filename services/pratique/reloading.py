"""Reloading: what was made of files, made anew when they change. A bad change leaves what was there."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pratique.errors import PratiqueError
from pratique.measures.reloads import Reloads
from pratique.tracebacks import described
from pratique.watching import POLL_SECONDS, fingerprint, watch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

T = TypeVar("T")

_log = logging.getLogger(__name__)


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
        self.seen = fingerprint(self.paths)
        """The state of the files that the first value was made of."""
        self.value = load()
        """The last good one."""
        self.failure = ""
        """Why what is in the files now cannot be used; empty where it is what is used."""
        self.reloads = Reloads(name)
        """How often it could be used, and how often not."""
        self._load = load
        self._listeners: list[Callable[[T], Awaitable[None] | None]] = []

    def tell(self, listener: Callable[[T], Awaitable[None] | None]) -> None:
        """Tell ``listener`` of every value to come. One that raises refuses the value."""
        self._listeners.append(listener)

    async def refresh(self) -> None:
        """Take up what is in the files now, where it is something else that can be used."""
        before = self.value
        try:
            value, is_new = await asyncio.to_thread(self._load_beside, before)
            if is_new:
                await self._take_up(value)
        except (PratiqueError, OSError) as error:
            self._keep(before, str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the watch over the files must not end by it
            self._keep(before, described(error))
        else:
            self._succeed(is_new=is_new)

    def _load_beside(self, before: T) -> tuple[T, bool]:
        value = self._load()
        return value, value != before

    async def _take_up(self, value: T) -> None:
        self.value = value
        for listener in self._listeners:
            told = listener(value)
            if inspect.isawaitable(told):
                await told

    def _succeed(self, *, is_new: bool) -> None:
        self.reloads.succeed()
        if is_new or self.failure:
            self.failure = ""
            _log.info("%s reloaded", self.name, extra={"file": str(self.paths[0])})

    def _keep(self, before: T, reason: str) -> None:
        self.value = before
        self.reloads.fail()
        if reason != self.failure:
            self.failure = reason
            _log.error("%s kept, the new one cannot be used", self.name, extra={"reason": reason})


async def keep_reloading(values: Sequence[Reloaded[Any]], *, poll_seconds: float = POLL_SECONDS) -> None:
    """Refresh all whenever a file of theirs changes, until cancelled.

    A change since they were first loaded is noticed, too.
    """
    paths = [path for one in values for path in one.paths]
    seen = tuple(part for one in values for part in one.seen)
    if not paths:
        return
    async for _ in watch(paths, seen=seen, poll_seconds=poll_seconds):
        for one in values:
            await one.refresh()
