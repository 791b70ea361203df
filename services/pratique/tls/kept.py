"""Kept: what was made of files, made anew when they change. A bad change leaves what was there."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import logging
import time
from typing import TYPE_CHECKING, Generic, TypeVar

from pratique.errors import PratiqueError
from pratique.tracebacks import described
from pratique.watching import POLL_SECONDS, fingerprint, watch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

T = TypeVar("T")

_log = logging.getLogger(__name__)

_DAY_SECONDS = 86_400
WARNING_SECONDS = 7 * _DAY_SECONDS
"""How long before its end a certificate is warned of. A week: whoever has to renew it by hand is at work by then."""


class Kept(Generic[T]):
    """One thing made of files, and how it is with it."""

    def __init__(
        self,
        name: str,
        load: Callable[[], T],
        paths: Sequence[Path],
        *,
        ends_at: Callable[[T], float] | None = None,
    ) -> None:
        """Load for the first time.

        Args:
            name: For people and metrics, such as ``serving``.
            load: Makes the value; called in a thread when it is called again.
            paths: The files that it reads.
            ends_at: When a value ends, in seconds since 1970.

        Raises:
            Exception: whatever ``load`` raises.
        """
        self.name = name
        self.paths = tuple(paths)
        self.value = load()
        """The last good one."""
        self.failure = ""
        """Why what is in the files now cannot be used; empty where it is what is used."""
        self._load = load
        self._ends_at = ends_at
        self._listeners: list[Callable[[T], Awaitable[None] | None]] = []

    @property
    def ends_at(self) -> float | None:
        """When it ends, in seconds since 1970; None where it does not."""
        return None if self._ends_at is None else self._ends_at(self.value)

    def tell(self, listener: Callable[[T], Awaitable[None] | None]) -> None:
        """Tell ``listener`` of every value to come."""
        self._listeners.append(listener)

    async def refresh(self) -> None:
        """Take up what is in the files now, where it is something else that can be used."""
        before = self.value
        try:
            value = await asyncio.to_thread(self._load)
            if value != before:
                await self._take_up(value)
        except (PratiqueError, OSError) as error:
            self._keep(str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the watch over the files must not end by it
            self.value = before
            self._keep(described(error))
        else:
            self.failure = ""

    async def _take_up(self, value: T) -> None:
        self.value = value
        _log.info("%s reloaded", self.name, extra={"file": str(self.paths[0])})
        for listener in self._listeners:
            told = listener(value)
            if inspect.isawaitable(told):
                await told

    def _keep(self, reason: str) -> None:
        if reason != self.failure:
            self.failure = reason
            _log.warning("%s kept, the new one cannot be used", self.name, extra={"reason": reason})

    def warning(self) -> str:
        """Why somebody should look at it before long; empty where there is no reason."""
        if self.failure:
            return f"{self.name} kept, the new one cannot be used"
        end = self.ends_at
        if end is None or end - time.time() > WARNING_SECONDS:
            return ""
        verb = "ends" if end > time.time() else "ended"
        return f"{self.name} {verb} {dt.datetime.fromtimestamp(end, dt.UTC):%Y-%m-%dT%H:%M:%SZ}"


async def keep_fresh(kept: Sequence[Kept[T]], *, poll_seconds: float = POLL_SECONDS) -> None:
    """Refresh all whenever a file of theirs changes, and warn of those that end soon, until cancelled."""
    paths = [path for one in kept for path in one.paths]
    if not paths:
        return
    warning = asyncio.ensure_future(_warn_daily(kept))
    try:
        seen = fingerprint(paths)
        # What has changed since the first loading is taken up before the first change is waited for.
        await _refresh(kept)
        async for _ in watch(paths, seen=seen, poll_seconds=poll_seconds):
            await _refresh(kept)
    finally:
        warning.cancel()


async def _refresh(kept: Sequence[Kept[T]]) -> None:
    for one in kept:
        await one.refresh()


async def _warn_daily(kept: Sequence[Kept[T]]) -> None:
    while True:
        for one in kept:
            reason = "" if one.failure else one.warning()
            if reason:
                _log.warning("certificate to be renewed", extra={"reason": reason})
        await asyncio.sleep(_DAY_SECONDS)
