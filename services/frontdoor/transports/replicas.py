"""One replica of a service: its channel, and the stream that is kept open on it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc

from frontdoor.transports.call_streams import CallStream
from pratique.rpc.inputs import inputs_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from frontdoor.transports.balancing import Load
    from pratique.calls import Deadline
    from pratique.digests import Digests
    from pratique.rpc.stream_methods import CarriedMethod
    from pratique.tracing.contexts import Carried

_MOST_IN_FLIGHT = 512
"""Calls on one stream; others are made by themselves meanwhile. 512: nearly the 600 that a kube-apiserver with default
flags has in flight, and half of the 1,000 that a service takes."""
_DESCRIBE_SECONDS = 1.0
"""How often a replica without streams is asked what it decides by, and how long it may take to say so. Within the grace
for which services keep what was before, this is often."""
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 2.0
"""How long to wait before a stream that ended is opened again; as long as for connections."""
_DRAIN_SECONDS = 30.0
"""How long calls under way keep a channel that is no longer used: the longest timeout of a webhook."""


class Replica:
    """Whoever is at one address. Its channel is ready only while that one is alive, answers pings, and says SERVING."""

    def __init__(
        self,
        open_channel: Callable[[], grpc.aio.Channel],
        method: CarriedMethod,
        load: Load,
        endpoint: str = "",
        *,
        streams: bool = True,
    ) -> None:
        """Connect, and go on doing so until closed.

        Args:
            open_channel: Makes a channel to it, each with a connection of its own.
            method: What is called.
            load: What it has to do, which goes on where another object has taken the place of this one.
            endpoint: Where it is, for people.
            streams: Open a stream; else each call is made by itself.
        """
        self.endpoint = endpoint
        self.load = load
        self._open = open_channel
        self._channel = open_channel()
        self._aside: grpc.aio.Channel | None = None
        self._method = method
        self._streams = streams
        self._described: tuple[Digests, ...] = ()
        self._stream: CallStream | None = None
        self._knows_no_streams = False
        self._running: set[asyncio.Task[grpc.StatusCode]] = set()
        self._keeping = asyncio.ensure_future(self._keep())

    @property
    def usable(self) -> bool:
        """Whether calls can be made to it now."""
        return self._knows_no_streams or (self._stream is not None and self._stream.usable)

    @property
    def held(self) -> tuple[Digests, ...]:
        """What it says that it decides by, now first and then what it has kept of before."""
        stream = self._stream
        return stream.held if stream is not None and stream.usable else self._described

    def holds(self, digest: str) -> bool:
        """Tell whether it decides by the inputs of a digest, now or still."""
        return any(one.whole == digest for one in self.held)

    @property
    def channel(self) -> grpc.aio.Channel:
        """The channel that its stream is on."""
        return self._channel

    async def ask(
        self, request: bytes, deadline: Deadline, metadata: Carried | None, *, aside: bool = False
    ) -> bytes:
        """Make one call: on the stream, or by itself where the service knows no streams or the stream is full.

        One that goes ``aside`` has a connection of its own, so that what is behind it need not wait.

        Raises:
            StreamedCallError: it has no answer.
            AioRpcError: likewise, of one made by itself.
        """
        stream = self._stream
        if not aside and stream is not None and stream.usable and stream.in_flight < _MOST_IN_FLIGHT:
            return await stream.ask(request, deadline, metadata)
        alone: Any = (self._beside if aside else self._channel).unary_unary(self._method.path, None, None)
        answer: bytes = await alone(request, timeout=deadline.remaining_seconds, metadata=metadata)
        return answer

    @property
    def _beside(self) -> grpc.aio.Channel:
        if self._aside is None:
            self._aside = self._open()
        return self._aside

    async def _keep(self) -> None:
        """Have a stream whenever the channel is ready."""
        while True:
            state = self._channel.get_state(try_to_connect=True)
            changed: asyncio.Future[Any] = asyncio.ensure_future(self._channel.wait_for_state_change(state))
            try:
                if state is grpc.ChannelConnectivity.READY:
                    await self._keep_ready(changed)
                await changed
            finally:
                changed.cancel()
                self._knows_no_streams = False
                self._described = ()
                if self._stream is not None:
                    self._stream.leave()

    async def _keep_ready(self, changed: asyncio.Future[Any]) -> None:
        """Make calls possible, until the channel is in another state."""
        if self._streams and await self._keep_stream(changed):
            return
        while not changed.done():
            try:
                self._described = await inputs_of(self._channel, _DESCRIBE_SECONDS)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                    self._described = ()
            self._knows_no_streams = True
            await asyncio.wait([changed], timeout=_DESCRIBE_SECONDS)

    async def _keep_stream(self, changed: asyncio.Future[Any]) -> bool:
        """Open streams, one after another, until the channel is in another state; False where it knows none."""
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
                return True
            if not stream.greeted and await running is grpc.StatusCode.UNIMPLEMENTED:
                return False
            pause = _FIRST_PAUSE_SECONDS if stream.greeted else min(2 * pause, _LONGEST_PAUSE_SECONDS)
            await asyncio.wait([changed], timeout=pause)
        return True

    async def retire(self) -> None:
        """Make no more calls, and let go when those under way have ended."""
        await self._stop_keeping()
        try:
            await self._close_channels(_DRAIN_SECONDS)
        except asyncio.CancelledError:
            await self._close_channels(None)
            raise
        finally:
            await self._settle()

    async def close(self) -> None:
        """Let go at once; calls under way have failed."""
        await self._stop_keeping()
        await self._close_channels(None)
        await self._settle()

    async def _close_channels(self, seconds: float | None) -> None:
        channels = [one for one in (self._channel, self._aside) if one is not None]
        await asyncio.gather(*(one.close(seconds) for one in channels))

    async def _stop_keeping(self) -> None:
        self._keeping.cancel()
        await asyncio.wait([self._keeping])

    async def _settle(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
