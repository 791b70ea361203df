"""One replica of a service: its channel, and the stream that is kept open on it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc

from frontdoor.transports.call_streams import CallStream

if TYPE_CHECKING:
    from pratique.calls import Deadline
    from pratique.rpc.stream_methods import CarriedMethod
    from pratique.tracing.contexts import Carried

_MOST_IN_FLIGHT = 512
"""Calls on one stream; others are made by themselves meanwhile. 512: nearly the 600 that a kube-apiserver with default
flags has in flight, and half of the 1,000 that a service takes."""
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 2.0
"""How long to wait before a stream that ended is opened again; as long as for connections."""
_DRAIN_SECONDS = 30.0
"""How long calls under way keep a channel that is no longer used: the longest timeout of a webhook."""


class Replica:
    """Whoever is at one address. Its channel is ready only while that one is alive, answers pings, and says SERVING."""

    def __init__(self, channel: grpc.aio.Channel, method: CarriedMethod) -> None:
        """Connect, and go on doing so until closed."""
        self._channel = channel
        self._method = method
        self._alone: Any = channel.unary_unary(method.path, None, None)
        self._stream: CallStream | None = None
        self._knows_no_streams = False
        self._running: set[asyncio.Task[grpc.StatusCode]] = set()
        self._keeping = asyncio.ensure_future(self._keep())

    @property
    def usable(self) -> bool:
        """Whether calls can be made to it now."""
        return self._knows_no_streams or (self._stream is not None and self._stream.usable)

    async def ask(self, request: bytes, deadline: Deadline, metadata: Carried | None) -> bytes:
        """Make one call: on the stream, or by itself where the service knows no streams or the stream is full.

        Raises:
            StreamedCallError: it has no answer.
            AioRpcError: likewise, of one made by itself.
        """
        stream = self._stream
        if stream is not None and stream.usable and stream.in_flight < _MOST_IN_FLIGHT:
            return await stream.ask(request, deadline, metadata)
        answer: bytes = await self._alone(request, timeout=deadline.remaining_seconds, metadata=metadata)
        return answer

    async def _keep(self) -> None:
        """Have a stream whenever the channel is ready."""
        while True:
            state = self._channel.get_state(try_to_connect=True)
            changed: asyncio.Future[Any] = asyncio.ensure_future(self._channel.wait_for_state_change(state))
            try:
                if state is grpc.ChannelConnectivity.READY:
                    await self._keep_stream(changed)
                await changed
            finally:
                changed.cancel()
                self._knows_no_streams = False
                if self._stream is not None:
                    self._stream.leave()

    async def _keep_stream(self, changed: asyncio.Future[Any]) -> None:
        """Open streams, one after another, until the channel is in another state."""
        pause = _FIRST_PAUSE_SECONDS
        while not changed.done():
            stream = self._stream = CallStream(self._channel, self._method)
            running = asyncio.ensure_future(stream.run())
            self._running.add(running)
            running.add_done_callback(self._running.discard)
            over: asyncio.Future[Any] = asyncio.ensure_future(stream.over.wait())
            try:
                await asyncio.wait([changed, over], return_when=asyncio.FIRST_COMPLETED)
            finally:
                over.cancel()
            if changed.done():
                return
            if not stream.greeted and await running is grpc.StatusCode.UNIMPLEMENTED:
                self._knows_no_streams = True
                return
            pause = _FIRST_PAUSE_SECONDS if stream.greeted else min(2 * pause, _LONGEST_PAUSE_SECONDS)
            await asyncio.wait([changed], timeout=pause)

    async def retire(self) -> None:
        """Make no more calls, and let go when those under way have ended."""
        await self._stop_keeping()
        try:
            await self._channel.close(_DRAIN_SECONDS)
        except asyncio.CancelledError:
            await self._channel.close(None)
            raise
        finally:
            await self._settle()

    async def close(self) -> None:
        """Let go at once; calls under way have failed."""
        await self._stop_keeping()
        await self._channel.close(None)
        await self._settle()

    async def _stop_keeping(self) -> None:
        self._keeping.cancel()
        await asyncio.wait([self._keeping])

    async def _settle(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
