"""The replicas of a service: their channels, streams and retries."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import grpc

from pratique.admission.reviews import Deadline
from pratique.configuration.input_digests import InputDigests
from pratique.rpc.handlers import ATTEMPTS_KEY, NOT_HELD, fetch_inputs
from pratique.rpc.streams import StreamedMethod
from pratique.telemetry.tracing import TraceMetadata
from pratique_frontdoor.transports.balancing import Balancer, ReplicaCallStatus, ReplicaLoad
from pratique_frontdoor.transports.call_streams import CallStream, StreamedCallError

MAX_TOKENS = 600
"""Each failed call costs a token, and calls are retried while more than half are left. 600 is what a kube-apiserver
with default flags has in flight: when one of two replicas dies, its 300 calls can be retried."""
MAX_ATTEMPTS = 4
"""How often gRPC itself tries a call, the first time included."""
TOKEN_RATIO = 0.1
"""Tokens that each successful call returns: in the long run at most a tenth of the calls is retried."""


class RetryBudget:
    """The retry tokens of one service."""

    def __init__(self) -> None:
        """Start with all tokens."""
        self._tokens: float = MAX_TOKENS

    def spend(self, attempts: int = 1) -> bool:
        """Count failed attempts; return whether another may be made."""
        self._tokens = max(0.0, self._tokens - attempts)
        return self._tokens > MAX_TOKENS / 2

    def earn(self) -> None:
        """Count a successful call."""
        self._tokens = min(MAX_TOKENS, self._tokens + TOKEN_RATIO)


_MAX_IN_FLIGHT = 512
"""Calls in flight on one stream; further calls are unary. 512: nearly the 600 that a kube-apiserver with default
flags has in flight, and half of the 1,000 that a service accepts."""
_DESCRIBE_SECONDS = 1.0
"""How often a replica without streams is asked for its digests, and the timeout of that call. It is short compared
with the grace period in which services keep earlier inputs."""
_FIRST_PAUSE_SECONDS = 0.1
_MAX_PAUSE_SECONDS = 2.0
"""How long to wait before an ended stream is reopened; as long as for connections."""
_DRAIN_SECONDS = 30.0
"""How long calls in flight keep a channel that is no longer used: the longest timeout of a webhook."""


class Replica:
    """The replica at one address. Its channel is ready only while it is alive, answers pings, and reports SERVING."""

    def __init__(
        self,
        open_channel: Callable[[], grpc.aio.Channel],
        method: StreamedMethod,
        load: ReplicaLoad,
        endpoint: str = "",
        *,
        streams: bool = True,
    ) -> None:
        """Connect, and reconnect until closed.

        Args:
            open_channel: Returns a new channel to it, each with its own connection.
            method: The method to call.
            load: Its load, which a replacement of this object takes over.
            endpoint: Its address for display.
            streams: Open a stream; otherwise all calls are unary.
        """
        self.endpoint = endpoint
        self.load = load
        self._open = open_channel
        self._channel = open_channel()
        self._aside: grpc.aio.Channel | None = None
        self._method = method
        self._streams = streams
        self._described: tuple[InputDigests, ...] = ()
        self._stream: CallStream | None = None
        self._knows_no_streams = False
        self._running: set[asyncio.Task[grpc.StatusCode]] = set()
        self._keeping = asyncio.ensure_future(self._keep())

    @property
    def usable(self) -> bool:
        """Whether calls can be made to it now."""
        return self._knows_no_streams or (self._stream is not None and self._stream.usable)

    @property
    def held(self) -> tuple[InputDigests, ...]:
        """Digests of the inputs that it decides by: the current ones, then earlier ones that it still accepts."""
        stream = self._stream
        return stream.held if stream is not None and stream.usable else self._described

    def holds(self, digest: str) -> bool:
        """Return whether it decides by the inputs of a digest, or still accepts them."""
        return any(one.whole == digest for one in self.held)

    @property
    def channel(self) -> grpc.aio.Channel:
        """The channel of its stream."""
        return self._channel

    async def ask(
        self, request: bytes, deadline: Deadline, metadata: TraceMetadata | None, *, aside: bool = False
    ) -> bytes:
        """Make one call: on the stream, or as a unary call if the service has no streams or the stream is full.

        A call that goes ``aside`` has a separate connection, so that calls behind it need not wait.

        Raises:
            StreamedCallError: the call has no answer.
            AioRpcError: the same for a unary call.
        """
        stream = self._stream
        if not aside and stream is not None and stream.usable and stream.in_flight < _MAX_IN_FLIGHT:
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
        """Keep a stream open whenever the channel is ready."""
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
        """Make calls possible, until the state of the channel changes."""
        if self._streams and await self._keep_stream(changed):
            return
        while not changed.done():
            try:
                self._described = await fetch_inputs(self._channel, _DESCRIBE_SECONDS)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                    self._described = ()
            self._knows_no_streams = True
            await asyncio.wait([changed], timeout=_DESCRIBE_SECONDS)

    async def _keep_stream(self, changed: asyncio.Future[Any]) -> bool:
        """Keep opening streams until the state of the channel changes; return False if the service has none."""
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
            pause = _FIRST_PAUSE_SECONDS if stream.greeted else min(2 * pause, _MAX_PAUSE_SECONDS)
            await asyncio.wait([changed], timeout=pause)
        return True

    async def retire(self) -> None:
        """Make no more calls, and close the channels when those in flight have ended."""
        await self._stop_keeping()
        try:
            await self._close_channels(_DRAIN_SECONDS)
        except asyncio.CancelledError:
            await self._close_channels(None)
            raise
        finally:
            await self._settle()

    async def close(self) -> None:
        """Close immediately; calls in flight fail."""
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


_log = logging.getLogger(__name__)

_BROKEN_OFF = grpc.StatusCode.UNAVAILABLE
_MAX_STREAMED_BYTES = 64 * 1024
"""Larger requests are unary calls on a separate connection, because they would delay the requests behind them. 64
KiB: an HTTP/2 frame has 16, and few Pods have more than 20."""
_REFUSED_SECONDS = 1.0
"""How long a refused call counts as in flight. Otherwise a replica that refuses immediately would have the fewest
calls, and get all new ones. 1: the others then get the calls of a second before it gets another."""


class DisagreementError(Exception):
    """Replicas are available, but none decides by the required inputs."""


class ReplicaAnswer(NamedTuple):
    """An answer."""

    answer: bytes
    endpoint: str = ""
    """The endpoint of the replica; empty if only gRPC knows it."""


class StreamedReplicas:
    """Calls one method on the replicas of a service."""

    def __init__(
        self,
        method: StreamedMethod,
        open_channel: Callable[[str], grpc.aio.Channel],
        scheme: str = "grpc",
        *,
        streams: bool = True,
        slow_seconds: float = 10.0,
    ) -> None:
        """Start without replicas.

        Args:
            method: The method to call.
            open_channel: Returns a new channel to one target, with the current credentials.
            scheme: The scheme of endpoints for display.
            streams: Open a stream to each; otherwise all calls are unary.
            slow_seconds: How long a slow replica is excluded the first time; 0 excludes none.
        """
        self._method = method
        self._open = open_channel
        self._scheme = scheme
        self._streams = streams
        self._replicas: dict[str, Replica] = {}
        self._balancer = Balancer(slow_seconds, tell=_log_exclusion)
        self._closed = False
        self._budget = RetryBudget()
        self._retiring: set[asyncio.Task[None]] = set()

    @property
    def usable(self) -> tuple[Replica, ...]:
        """The replicas that can be called now, if they agree with the caller's inputs."""
        return tuple(one for one in self._replicas.values() if one.usable)

    def use(self, targets: Iterable[str]) -> None:
        """Call these replicas from now on, and earlier ones as long as they are available."""
        wanted = frozenset(targets)
        for target in wanted - self._replicas.keys():
            self._replicas[target] = self._replica(target, self._balancer.add(self._endpoint(target)))
        for target in self._replicas.keys() - wanted:
            if not self._replicas[target].usable:
                gone = self._replicas.pop(target)
                self._balancer.remove(gone.load)
                self._retire(gone)

    def renew(self) -> None:
        """Replace all channels; calls in flight finish on the old ones."""
        for target, before in self._replicas.items():
            self._replicas[target] = self._replica(target, before.load)
            self._retire(before)

    def _replica(self, target: str, load: ReplicaLoad) -> Replica:
        open_channel = functools.partial(self._open, target)
        return Replica(open_channel, self._method, load, self._endpoint(target), streams=self._streams)

    def _endpoint(self, target: str) -> str:
        return f"{self._scheme}://{target.partition(':')[2].lstrip('/')}"

    async def ask(
        self, request: bytes, deadline: Deadline, metadata: TraceMetadata | None, alone: Any, digest: str = ""
    ) -> ReplicaAnswer:
        """Make one call, and retry it if the replica broke off. ``alone`` makes unary calls without choosing a replica.

        With a ``digest``, only replicas are called that decide by its inputs.

        Raises:
            DisagreementError: there are replicas, and none decides by these inputs.
            StreamedCallError: the call has no answer.
            AioRpcError: the same for a unary call.
        """
        aside = len(request) > _MAX_STREAMED_BYTES
        usable = self._usable(digest)
        if not usable:
            return ReplicaAnswer(await _call_unary(alone, request, deadline, metadata))
        replica, ticket = self._balancer.choose(usable, comparable=not aside)
        try:
            answered = await self._ask(replica, request, deadline, metadata, ticket)
        except (StreamedCallError, grpc.aio.AioRpcError) as error:
            if error.code() is NOT_HELD and digest:
                return await self._ask_another(replica, request, deadline, metadata, digest)
            if error.code() is not _BROKEN_OFF or self._closed or not self._budget.spend():
                raise
            if getattr(error, "begun", True):
                metadata = (*(metadata or ()), (ATTEMPTS_KEY, "1"))
            return await self._repeat(replica, request, deadline, metadata, alone, digest)
        self._budget.earn()
        return answered

    async def _ask(
        self,
        replica: Replica,
        request: bytes,
        deadline: Deadline,
        metadata: TraceMetadata | None,
        ticket: int = 0,
    ) -> ReplicaAnswer:
        load, began, ending = replica.load, time.monotonic() if ticket else 0.0, ReplicaCallStatus.REFUSED
        load.in_flight += 1
        try:
            aside = len(request) > _MAX_STREAMED_BYTES
            answer = await replica.ask(request, deadline, metadata, aside=aside)
            ending = ReplicaCallStatus.ANSWERED
        except asyncio.CancelledError:
            ending = ReplicaCallStatus.GIVEN_UP
            raise
        except (StreamedCallError, grpc.aio.AioRpcError) as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                ending = ReplicaCallStatus.GIVEN_UP
            raise
        finally:
            if ending is ReplicaCallStatus.REFUSED:
                asyncio.get_running_loop().call_later(_REFUSED_SECONDS, _end_refused, load)
            else:
                load.in_flight -= 1
            if ticket:
                self._balancer.end(load, ticket, time.monotonic() - began, ending)
        return ReplicaAnswer(answer, replica.endpoint)

    async def _ask_another(
        self,
        replica: Replica,
        request: bytes,
        deadline: Deadline,
        metadata: TraceMetadata | None,
        digest: str,
    ) -> ReplicaAnswer:
        """Call another replica than the one whose inputs have just changed; it has not executed the call."""
        others = self._usable(digest, but=replica)
        if not others:
            raise DisagreementError
        other, _ = self._balancer.choose(others, comparable=False)
        return await self._ask(other, request, deadline, metadata)

    async def _repeat(  # noqa: PLR0917 - as above
        self,
        replica: Replica,
        request: bytes,
        deadline: Deadline,
        metadata: TraceMetadata | None,
        alone: Any,
        digest: str,
    ) -> ReplicaAnswer:
        if others := self._usable(digest, but=replica):
            other, _ = self._balancer.choose(others, comparable=False)
            try:
                return await self._ask(other, request, deadline, metadata)
            except (StreamedCallError, grpc.aio.AioRpcError) as error:
                if error.code() is not _BROKEN_OFF or self._closed or not self._budget.spend():
                    raise
        try:
            return ReplicaAnswer(await _call_unary(alone, request, deadline, metadata))
        except grpc.aio.AioRpcError as error:
            if error.code() is _BROKEN_OFF:
                self._budget.spend(MAX_ATTEMPTS - 1)  # gRPC has counted them for itself
            raise

    async def close(self) -> None:
        """Close all replicas; calls in flight fail."""
        self._closed = True
        retiring = tuple(self._retiring)
        for task in retiring:
            task.cancel()
        replicas, self._replicas = self._replicas, {}
        await asyncio.gather(*retiring, *(one.close() for one in replicas.values()), return_exceptions=True)

    def _usable(self, digest: str, but: Replica | None = None) -> list[Replica]:
        """Return the replicas that a call could go to.

        Raises:
            DisagreementError: there are replicas, and none decides by these inputs.
        """
        usable = [one for one in self._replicas.values() if one.usable and one is not but]
        if digest and usable:
            usable = [one for one in usable if one.holds(digest)]
            if not usable:
                raise DisagreementError
        return usable

    def _retire(self, replica: Replica) -> None:
        task = asyncio.ensure_future(replica.retire())
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)


def _end_refused(load: ReplicaLoad) -> None:
    load.in_flight -= 1


def _log_exclusion(load: ReplicaLoad) -> None:
    if load.left_out:
        _log.warning("a replica is left out: it is much slower than others", extra={"address": load.name})
    else:
        _log.info("a replica that was left out is asked again", extra={"address": load.name})


async def _call_unary(
    alone: Any, request: bytes, deadline: Deadline, metadata: TraceMetadata | None
) -> bytes:
    return bytes(await alone(request, timeout=deadline.remaining_seconds, metadata=metadata))
