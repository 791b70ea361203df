"""Kept: certificates, authorities and secrets in files, which are read again when they change, and may end."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import time
from typing import TYPE_CHECKING, Any, TypeVar

from pratique.reloading import Reloaded, keep_reloading
from pratique.watching import POLL_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

T = TypeVar("T")

_log = logging.getLogger(__name__)

_DAY_SECONDS = 86_400
WARNING_SECONDS = 7 * _DAY_SECONDS
"""How long before its end a certificate is warned of. A week: whoever has to renew it by hand is at work by then."""


class Kept(Reloaded[T]):
    """Something reloaded that somebody has to look after."""

    def __init__(
        self,
        name: str,
        load: Callable[[], T],
        paths: Sequence[Path],
        *,
        ends_at: Callable[[T], float] | None = None,
    ) -> None:
        """Load for the first time; ``ends_at`` says when a value ends, in seconds since 1970.

        Raises:
            Exception: whatever ``load`` raises.
        """
        super().__init__(name, load, paths)
        self._ends_at = ends_at

    @property
    def ends_at(self) -> float | None:
        """When it ends, in seconds since 1970; None where it does not."""
        return None if self._ends_at is None else self._ends_at(self.value)

    def warning(self) -> str:
        """As of all that is reloaded; and that it ends soon."""
        if self.failure:
            return super().warning()
        end = self.ends_at
        if end is None or end - time.time() > WARNING_SECONDS:
            return ""
        verb = "ends" if end > time.time() else "ended"
        return f"{self.name} {verb} {dt.datetime.fromtimestamp(end, dt.UTC):%Y-%m-%dT%H:%M:%SZ}"


async def keep_fresh(kept: Sequence[Kept[Any]], *, poll_seconds: float = POLL_SECONDS) -> None:
    """Refresh all whenever a file of theirs changes, and warn of those that end soon, until cancelled."""
    warning = asyncio.ensure_future(_warn_daily(kept))
    try:
        await keep_reloading(kept, poll_seconds=poll_seconds)
    finally:
        warning.cancel()


async def _warn_daily(kept: Sequence[Kept[Any]]) -> None:
    while True:
        for one in kept:
            reason = "" if one.failure else one.warning()
            if reason:
                _log.warning("certificate to be renewed", extra={"reason": reason})
        await asyncio.sleep(_DAY_SECONDS)
