"""Calls to the replicas of a service: which replica gets a call, and when the call is made again on another."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import grpc
import msgspec

from pratique.admission.reviews import Deadline
from pratique.rpc.handlers import ATTEMPTS_KEY, NOT_HELD
from pratique.rpc.streams import StreamedMethod
from pratique.telemetry.tracing import TraceMetadata
from pratique_frontdoor.transports.balancing import Balancer, ReplicaCallStatus, ReplicaLoad
from pratique_frontdoor.transports.channels import MAX_ATTEMPTS, MAX_TOKENS, TOKEN_RATIO
from pratique_frontdoor.transports.replicas import Replica, StreamedCallError

_log = logging.getLogger(__name__)


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


class OutgoingCall(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One call to a service, with everything that does not change if it is repeated."""

    request: bytes
    """The encoded request."""
    deadline: Deadline
    """The deadline of the review."""
    metadata: TraceMetadata | None = None
    digest: str = ""
    """Only replicas are called that decide by the inputs of this digest; empty calls any."""
    timeout_seconds: float | None = None
    """The time limit of one try, which the service keeps, too; None means the deadline."""
    late_seconds: float | None = None
    """When to give a try up for another replica, which the service does not know; None means never."""
    repeatable: bool = True
    """Whether a call without an answer may be made again although a replica may still be executing it."""
    sent_to: set[str] | None = None
    """The endpoints that the other shares of the review were sent to; None if it is not divided."""
    batch: int = 1
    """How many calls one message should have before another replica gets the next one."""

    def repeated(self) -> OutgoingCall:
        """Return the call, marked as one that may have been executed before."""
        return msgspec.structs.replace(self, metadata=(*(self.metadata or ()), (ATTEMPTS_KEY, "1")))


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
        self._balancer = Balancer(slow_seconds, on_change=_log_exclusion)
        self._closed = False
        self._budget = RetryBudget()
        self._retiring: set[asyncio.Task[None]] = set()

    @property
    def usable(self) -> tuple[Replica, ...]:
        """The replicas that can be called now, if they agree with the caller's inputs."""
        return tuple(replica for replica in self._replicas.values() if replica.usable)

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

    async def ask(self, call: OutgoingCall, call_unary: Any) -> ReplicaAnswer:
        """Make one call, and repeat it on another replica if the first broke off or is late.

        Args:
            call: The call.
            call_unary: Makes unary calls without choosing a replica, for when none can be chosen.

        Raises:
            DisagreementError: there are replicas, and none decides by the inputs of the call.
            StreamedCallError: the call has no answer.
            AioRpcError: the same for a unary call.
        """
        usable = self._usable(call.digest)
        if not usable:
            return ReplicaAnswer(await call_alone(call_unary, call))
        replica, ticket = self._choose(usable, call)
        late_seconds = call.late_seconds if len(usable) > 1 else None
        try:
            answered = await self._ask(replica, call, ticket, late_seconds)
        except (StreamedCallError, grpc.aio.AioRpcError) as error:
            if error.code() is NOT_HELD and call.digest:
                return await self._ask_another(replica, call)
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                return await self._repeat_late(replica, call, call_unary, error)
            return await self._repeat_broken_off(replica, call, call_unary, error)
        self._budget.earn()
        return answered

    def _choose(self, usable: Sequence[Replica], call: OutgoingCall) -> tuple[Replica, int]:
        """Choose a replica, and another one for each share of a review if there are enough."""
        sent_to, comparable = call.sent_to, len(call.request) <= _MAX_STREAMED_BYTES
        if sent_to is None:
            return self._balancer.choose(usable, comparable=comparable, batch=call.batch)
        rest = [replica for replica in usable if replica.endpoint not in sent_to]
        replica, _ = self._balancer.choose(rest or usable, comparable=False)
        sent_to.add(replica.endpoint)
        return replica, 0

    async def _ask(
        self, replica: Replica, call: OutgoingCall, ticket: int = 0, late_seconds: float | None = None
    ) -> ReplicaAnswer:
        load, began, ending = replica.load, time.monotonic() if ticket else 0.0, ReplicaCallStatus.REFUSED
        load.in_flight += 1
        try:
            answer = await replica.ask(
                call.request,
                call.deadline.sooner(call.timeout_seconds),
                call.metadata,
                patience=None if late_seconds is None else call.deadline.sooner(late_seconds),
                separately=len(call.request) > _MAX_STREAMED_BYTES,
            )
            ending = ReplicaCallStatus.ANSWERED
            load.late_until = 0.0
        except asyncio.CancelledError:
            ending = ReplicaCallStatus.GIVEN_UP
            raise
        except (StreamedCallError, grpc.aio.AioRpcError) as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                ending = ReplicaCallStatus.GIVEN_UP
            raise
        finally:
            load.ended += 1
            if ending is ReplicaCallStatus.REFUSED:
                asyncio.get_running_loop().call_later(_REFUSED_SECONDS, _end_refused, load)
            else:
                load.in_flight -= 1
            if ticket:
                self._balancer.end(load, ticket, time.monotonic() - began, ending)
        return ReplicaAnswer(answer, replica.endpoint)

    async def _ask_another(self, replica: Replica, call: OutgoingCall) -> ReplicaAnswer:
        """Call another replica than the one whose inputs have just changed; it has not executed the call."""
        others = self._usable(call.digest, excluding=replica)
        if not others:
            raise DisagreementError
        other, _ = self._choose(others, call)
        return await self._ask(other, call)

    async def _repeat_late(
        self,
        replica: Replica,
        call: OutgoingCall,
        call_unary: Any,
        error: StreamedCallError | grpc.aio.AioRpcError,
    ) -> ReplicaAnswer:
        """Call another replica than the one that is late, if the review has time for that."""
        if not call.repeatable or call.deadline.passed or self._closed:
            raise error
        others = self._usable(call.digest, excluding=replica)
        if not others or not self._budget.spend():
            raise error
        self._balancer.late(replica.load)
        other, _ = self._choose(others, call)
        call = call.repeated()
        try:
            return await self._ask(other, call)
        except (StreamedCallError, grpc.aio.AioRpcError) as second:
            return await self._repeat_broken_off(other, call, call_unary, second)

    async def _repeat_broken_off(
        self,
        replica: Replica,
        call: OutgoingCall,
        call_unary: Any,
        error: StreamedCallError | grpc.aio.AioRpcError,
    ) -> ReplicaAnswer:
        if error.code() is not _BROKEN_OFF or self._closed or not self._budget.spend():
            raise error
        return await self._repeat(replica, call.repeated() if _has_begun(error) else call, call_unary)

    async def _repeat(self, replica: Replica, call: OutgoingCall, call_unary: Any) -> ReplicaAnswer:
        if others := self._usable(call.digest, excluding=replica):
            other, _ = self._choose(others, call)
            try:
                return await self._ask(other, call)
            except (StreamedCallError, grpc.aio.AioRpcError) as error:
                if error.code() is not _BROKEN_OFF or self._closed or not self._budget.spend():
                    raise
        try:
            return ReplicaAnswer(await call_alone(call_unary, call))
        except grpc.aio.AioRpcError as error:
            if error.code() is _BROKEN_OFF:
                self._budget.spend(MAX_ATTEMPTS - 1)  # gRPC has counted them itself
            raise

    async def close(self) -> None:
        """Close all replicas; calls in flight fail."""
        self._closed = True
        retiring = tuple(self._retiring)
        for task in retiring:
            task.cancel()
        replicas, self._replicas = self._replicas, {}
        await asyncio.gather(
            *retiring, *(replica.close() for replica in replicas.values()), return_exceptions=True
        )

    def _usable(self, digest: str, excluding: Replica | None = None) -> list[Replica]:
        """Return the replicas that a call could go to.

        Raises:
            DisagreementError: there are replicas, and none decides by these inputs.
        """
        usable = [other for other in self._replicas.values() if other.usable and other is not excluding]
        if digest and usable:
            usable = [other for other in usable if other.holds(digest)]
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
    if load.excluded:
        _log.warning("a replica is excluded: it is much slower than others", extra={"address": load.name})
    else:
        _log.info("an excluded replica is used again", extra={"address": load.name})


def _has_begun(error: StreamedCallError | grpc.aio.AioRpcError) -> bool:
    """Return whether the service may have executed the call; gRPC does not tell."""
    return not isinstance(error, StreamedCallError) or error.begun


async def call_alone(call_unary: Any, call: OutgoingCall) -> bytes:
    """Make a unary call without choosing a replica."""
    seconds = call.deadline.sooner(call.timeout_seconds).remaining_seconds
    return bytes(await call_unary(call.request, timeout=seconds, metadata=call.metadata))
