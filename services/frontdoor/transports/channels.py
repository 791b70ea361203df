"""Channels that can be made anew while calls are under way, without any of them noticing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc

if TYPE_CHECKING:
    from collections.abc import Callable

_CONNECT_SECONDS = 5.0
"""How long a new channel may take to connect before it is used all the same, or given up."""
_DRAIN_SECONDS = 30.0
"""How long calls under way keep the channel that they began on: the longest timeout of a webhook."""


class RenewableChannel:
    """A channel that another one takes the place of: for new addresses behind a name, or new credentials.

    The new one connects first; calls go to it from then on, and those under way finish on the one that they began on.
    """

    def __init__(
        self, open_channel: Callable[[], grpc.aio.Channel], use: Callable[[grpc.aio.Channel], None]
    ) -> None:
        """Open the first channel; it connects on first use.

        Args:
            open_channel: Makes a channel, as things are when it is called.
            use: Given each channel when calls are to go to it, the first one at once.
        """
        self._open = open_channel
        self._use = use
        self._renewing = asyncio.Lock()
        self._draining: set[asyncio.Task[None]] = set()
        self._current = open_channel()
        use(self._current)

    @property
    def current(self) -> grpc.aio.Channel:
        """The channel that calls go to now."""
        return self._current

    async def renew(self, *, only_if_ready: bool = False) -> bool:
        """Let a new channel take over, and drain the one that was used; gives whether that was done.

        Args:
            only_if_ready: Stay with the present channel where the new one does not connect in time. Without it the new
                one takes over in either case, as it must where what the present one was made of is not to be used.
        """
        async with self._renewing:
            fresh = self._open()
            try:
                ready = await _connected(fresh)
            except asyncio.CancelledError:
                await fresh.close(None)
                raise
            if only_if_ready and not ready:
                await fresh.close(None)
                return False
            before, self._current = self._current, fresh
            self._use(fresh)
            draining = asyncio.ensure_future(_drain(before))
            self._draining.add(draining)
            draining.add_done_callback(self._draining.discard)
            return True

    async def close(self) -> None:
        """Close all channels; calls under way are cancelled."""
        draining = tuple(self._draining)
        for task in draining:
            task.cancel()
        await asyncio.gather(*draining, return_exceptions=True)
        await self._current.close(None)


async def _connected(channel: grpc.aio.Channel) -> bool:
    """Wait until calls would find somebody, but not for long."""
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            state = channel.get_state(try_to_connect=True)
            while state is not grpc.ChannelConnectivity.READY:
                await channel.wait_for_state_change(state)
                state = channel.get_state(try_to_connect=True)
    except TimeoutError:
        return False
    return True


async def _drain(channel: grpc.aio.Channel) -> None:
    try:
        await channel.close(_DRAIN_SECONDS)
    except asyncio.CancelledError:
        await channel.close(None)
        raise
