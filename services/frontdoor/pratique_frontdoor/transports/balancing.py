"""Balancing: which replica gets a call, which are excluded because they are slow, and when a call is made again.

A call goes to a replica with few calls in flight. Among about equally loaded replicas the choice is random, and only
calls assigned at random are compared: reviews that are slow everywhere then reach all replicas equally. The
balancer itself does no I/O and starts no tasks.
"""

from __future__ import annotations

import asyncio
import enum
import functools
import logging
import random
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import grpc
import msgspec

from pratique.admission.late_reviews import LEAST_SECONDS
from pratique.admission.reviews import Deadline
from pratique.rpc.handlers import ATTEMPTS_KEY, NOT_HELD
from pratique.rpc.streams import StreamedMethod
from pratique.telemetry.tracing import TraceMetadata
from pratique_frontdoor.settings import NEVER_HEDGED, HedgeDelay
from pratique_frontdoor.transports.channels import MAX_ATTEMPTS, MAX_TOKENS, TOKEN_RATIO
from pratique_frontdoor.transports.hedging import Hedging
from pratique_frontdoor.transports.replicas import Replica, ReplicaLoad, StreamedCallError

_log = logging.getLogger(__name__)

_EVEN_DIFFERENCE = 1
"""A difference in calls in flight that does not matter: one call has begun or ended a moment ago."""
_SLOW_SECONDS = 0.1
"""Calls shorter than this are never slow. 0.1: 1 % of the default timeout of a review, and longer than a pause of an
event loop."""
_SLOW_FACTOR = 3
"""A call is slow if it takes this many times as long as the longest call of the others. 3: the same review may take
twice as long beside a busy neighbor."""
_SLOW_CALLS = 16
"""Slow calls that exclude a replica. A client that sends reviews that are slow everywhere excludes one of two
replicas only if none of 16 goes to the other: once in 65,536 attempts, and none succeeds in the span after a failed
attempt."""
_COMPARED_CALLS = 4
"""Calls that another replica must have had within two spans to be compared with. While one replica hangs, two calls
go to each at random within the timeout of a review, 10 s by default."""
_SLOW_CALLS_OFFSET = 3
"""How many slow calls one fast call offsets: a replica is excluded if more than three of four calls are slow."""
_SPAN_SECONDS = 30.0
"""The longest call is that of the current span and the previous one. 30: the longest timeout of a review, so that
calls that began together are compared whichever ends first."""
_NO_LIMIT = float("inf")
"""The limit without any replica to compare with."""
_MAX_DOUBLINGS = 3
"""How often the time doubles while trials are slow, as for circuit breakers: up to 80 s with the default of 10. It
starts over once a replica has been used for that long."""
_SILENT_SECONDS = 0.03
"""A replica that has calls and has answered none for so long may be stopped. 0.03: ten times what a call takes, and
shorter than most pauses that matter."""
_SILENT_CALLS = 8
"""How many more calls such a replica counts as having. 8: it gets some nevertheless if the others have many, as it may
only have long ones."""
_LATE_SECONDS = 2.0
"""How long a replica that did not answer in time is avoided, unless it answers another call meanwhile. 2: its calls
are late after 1 s by default, and a frozen replica is noticed within 7, so that at most three reviews wait for it."""


_AT_LEAST_FOR_LATE_CALLS = 2
"""How many others a late call needs to go to one of them, so that one is left if that is late, too."""


class ReplicaCallStatus(enum.Enum):
    """How a call ended, for balancing."""

    ANSWERED = "answered"
    """The call was answered."""
    GIVEN_UP = "given up"
    """Its deadline passed or it was cancelled: it would have taken at least that long."""
    REFUSED = "refused"
    """Any other status. The request may be the reason, so it says nothing about the replica."""


class HasLoad(Protocol):
    """Anything that has a load."""

    @property
    def load(self) -> ReplicaLoad:
        """Its load."""

    @property
    def queued(self) -> int:
        """The number of calls that wait for its next message."""


B = TypeVar("B", bound=HasLoad)


class Balancer:
    """Balances calls between the replicas of one service. It belongs to one event loop."""

    def __init__(
        self,
        seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
        on_change: Callable[[ReplicaLoad], None] = lambda _: None,
    ) -> None:
        """Start without replicas.

        Args:
            seconds: How long a slow replica is excluded the first time; 0 excludes none.
            clock: Returns seconds that never decrease.
            chance: Returns a random number from 0 up to, but not including, 1.
            on_change: Called whenever a replica is excluded or used again.
        """
        self._seconds, self._clock, self._chance, self._on_change = seconds, clock, chance, on_change
        self._loads: list[ReplicaLoad] = []
        self._excluded = 0

    def add(self, name: str) -> ReplicaLoad:
        """Add a replica."""
        load = ReplicaLoad(name)
        self._loads.append(load)
        return load

    def remove(self, load: ReplicaLoad) -> None:
        """Remove a replica."""
        self._loads.remove(load)
        self._excluded -= load.excluded
        load.epoch += 1  # calls in flight there no longer count
        for other in self._loads:
            if self._excluded > len(self._loads) // 2 and other.excluded:
                self._include(other)

    def late(self, load: ReplicaLoad) -> None:
        """Avoid a replica for a while, because it did not answer a call in time."""
        load.late += 1
        load.late_until = self._clock() + _LATE_SECONDS

    def outrun(self, load: ReplicaLoad) -> None:
        """Avoid a replica for a while, because another one answered the same call sooner although it got it later.

        The call was cancelled before it could have counted as slow, so a trial has failed, too.
        """
        self.late(load)
        if load.excluded:
            self._schedule_trial(load, self._clock())

    def choose(self, candidates: Sequence[B], *, comparable: bool = True, batch: int = 1) -> tuple[B, int]:
        """Choose one of the available replicas.

        Args:
            candidates: The available replicas, at least one. Excluded ones are used only if there is no other.
            comparable: Whether the call is like most others, so that its duration may count.
            batch: How many calls one message should have before another replica gets the next call: calls that share a
                message cost less.

        Returns:
            The replica, and the ticket with which to end the call; 0 if its duration does not count.
        """
        if self._excluded:
            now, rest = self._clock(), []
            for candidate in candidates:
                load = candidate.load
                if not load.excluded:
                    rest.append(candidate)
                elif comparable and load.until <= now and not load.trying:
                    load.trying = True
                    load.epoch += 1
                    return candidate, load.epoch
            if rest:
                candidates = rest
            else:
                comparable = False
        if any(candidate.load.late_until for candidate in candidates):
            candidates = self._punctual(candidates)
            comparable = False
        if len(candidates) == 1:
            return candidates[0], candidates[0].load.epoch if comparable else 0
        if batch > 1 and (filling := _filling(candidates, batch)) is not None:
            # As comparable as the first call of the message, which chose the replica for all of them.
            return filling, filling.load.message_ticket if comparable else 0
        even = self._least_loaded(candidates)
        chosen = even[int(self._chance() * len(even))]
        # Durations count only if all replicas had the same chance; otherwise busy ones would be spared the slow calls
        # of the others.
        chosen.load.message_ticket = chosen.load.epoch if comparable and len(even) == len(candidates) else 0
        return chosen, chosen.load.message_ticket

    def _least_loaded(self, candidates: Sequence[B]) -> Sequence[B]:
        now = self._clock()
        loads = [_weight(candidate.load, now) for candidate in candidates]
        most = min(loads) + _EVEN_DIFFERENCE
        return [candidate for candidate, load in zip(candidates, loads, strict=True) if load <= most]

    def _punctual(self, candidates: Sequence[B]) -> Sequence[B]:
        now = self._clock()
        return [candidate for candidate in candidates if candidate.load.late_until <= now] or candidates

    def end(self, load: ReplicaLoad, ticket: int, seconds: float, ending: ReplicaCallStatus) -> None:
        """Record a call that ended after ``seconds``, with the ticket that it began with."""
        if ticket != load.epoch or not self._seconds:
            return
        if ending is ReplicaCallStatus.REFUSED:
            load.trying = False
            return
        now = self._clock()
        if now >= load.span_ends:
            _begin_span(load, now)
        load.longest = max(load.longest, seconds)
        limit, others = self._limit(load, now) if seconds > _SLOW_SECONDS else (_SLOW_SECONDS, 0)
        if seconds > limit:
            self._slow(load, now, others)
        elif ending is ReplicaCallStatus.GIVEN_UP:
            load.trying = False
            return
        elif load.excluded:
            self._include(load)
        elif load.score and limit < _NO_LIMIT:
            load.score = max(0, load.score - _SLOW_CALLS_OFFSET)
        load.seen += 1

    def _slow(self, load: ReplicaLoad, now: float, others: int) -> None:
        if load.excluded:
            self._schedule_trial(load, now)
            return
        load.score += 1
        if load.score >= _SLOW_CALLS and self._excluded < (self._excluded + 1 + others) // 2:
            self._exclude(load, now)

    def _limit(self, load: ReplicaLoad, now: float) -> tuple[float, int]:
        """Return the duration beyond which a replica's call is slow, and the number of replicas compared with."""
        others = []
        for other in self._loads:
            if other is load or other.excluded:
                continue
            if now >= other.span_ends:
                _begin_span(other, now)
            if other.seen + other.seen_before >= _COMPARED_CALLS:
                others.append(max(other.longest, other.longest_before))
        if not others:
            return _NO_LIMIT, 0
        others.sort()
        return max(_SLOW_SECONDS, _SLOW_FACTOR * others[len(others) // 2]), len(others)

    def _exclude(self, load: ReplicaLoad, now: float) -> None:
        if now > load.until + self._seconds * 2**_MAX_DOUBLINGS:
            load.doublings = 0
        load.excluded = True
        load.exclusions += 1
        self._excluded += 1
        self._schedule_trial(load, now)
        self._on_change(load)

    def _schedule_trial(self, load: ReplicaLoad, now: float) -> None:
        load.trying = False
        load.until = now + self._seconds * 2**load.doublings
        load.doublings = min(load.doublings + 1, _MAX_DOUBLINGS)
        load.epoch += 1

    def _include(self, load: ReplicaLoad) -> None:
        load.excluded = load.trying = False
        load.score = 0
        load.epoch += 1
        self._excluded -= 1
        self._on_change(load)


def _filling(candidates: Sequence[B], batch: int) -> B | None:
    """Return the replica whose next message has room.

    A replica that has yet to answer is not filled: it may be slow or frozen, and would take all callers with it.
    """
    for candidate in candidates:
        if 0 < candidate.queued < batch and candidate.queued == candidate.load.in_flight:
            return candidate
    return None


def _weight(load: ReplicaLoad, now: float) -> int:
    """Return the calls in flight, and more if the replica does not answer."""
    calls = load.in_flight
    return calls + _SILENT_CALLS if calls and now - load.active_at > _SILENT_SECONDS else calls


def _begin_span(load: ReplicaLoad, now: float) -> None:
    over = now >= load.span_ends + _SPAN_SECONDS
    load.seen_before, load.longest_before = (0, 0.0) if over else (load.seen, load.longest)
    load.seen, load.longest = 0, 0.0
    load.span_ends = now + _SPAN_SECONDS


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


_BROKEN_OFF = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED})
"""How a call ends that got no answer. CANCELLED: the service began to stop just as the call reached it (what the front
door cancels itself never comes back as an error)."""
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


def _ignore(_seconds: float) -> None:
    """Do nothing."""


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
    hedge_least_seconds: float | None = None
    """How long to wait at least until the call is also made on another replica; None means that it never is."""
    on_failure: Callable[[float], None] = _ignore
    """Called when a replica is late with the call, or dies while it executes it, with the seconds that this took."""

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
        hedge_delay: HedgeDelay = NEVER_HEDGED,
    ) -> None:
        """Start without replicas.

        Args:
            method: The method to call.
            open_channel: Returns a new channel to one target, with the current credentials.
            scheme: The scheme of endpoints for display.
            streams: Open a stream to each; otherwise all calls are unary.
            slow_seconds: How long a slow replica is excluded the first time; 0 excludes none.
            hedge_delay: When calls that may be hedged are.
        """
        self._method = method
        self._open = open_channel
        self._scheme = scheme
        self._streams = streams
        self._replicas: dict[str, Replica] = {}
        self._balancer = Balancer(slow_seconds, on_change=_log_exclusion)
        self._closed = False
        self._budget = RetryBudget()
        self.hedging = Hedging(hedge_delay)
        """When calls are hedged, and what came of it."""
        self._tasks: set[asyncio.Task[None]] = set()

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
        # The last one that is ready never gets a late call again: with two it goes on, unless the first is frozen.
        late_seconds = call.late_seconds if len(usable) > _AT_LEAST_FOR_LATE_CALLS else None
        watching = self._watch_later(replica, call) if len(usable) == _AT_LEAST_FOR_LATE_CALLS else None
        try:
            if call.hedge_least_seconds is None or len(usable) < 2:
                answered = await self._ask(replica, call, ticket, late_seconds)
            else:
                answered = await self._ask_hedged(replica, call, ticket, late_seconds)
        except (StreamedCallError, grpc.aio.AioRpcError) as error:
            if error.code() is NOT_HELD and call.digest:
                return await self._ask_another(replica, call)
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                return await self._repeat_late(replica, call, call_unary, error)
            return await self._repeat_broken_off(replica, call, call_unary, error)
        finally:
            if watching is not None:
                watching.cancel()
        self._budget.earn()
        return answered

    def _watch_later(self, replica: Replica, call: OutgoingCall) -> asyncio.TimerHandle | None:
        """Let other calls avoid a replica once this one is late, and end what is in flight there if it is frozen."""
        if call.late_seconds is None:
            return None
        return asyncio.get_running_loop().call_later(call.late_seconds, self._watch, replica)

    def _watch(self, replica: Replica) -> None:
        self._balancer.late(replica.load)
        watching = asyncio.ensure_future(replica.end_if_silent())
        self._tasks.add(watching)
        watching.add_done_callback(self._tasks.discard)

    def _choose(self, usable: Sequence[Replica], call: OutgoingCall) -> tuple[Replica, int]:
        """Choose a replica, and another one for each share of a review if there are enough."""
        sent_to, comparable = call.sent_to, len(call.request) <= _MAX_STREAMED_BYTES
        if sent_to is None:
            return self._balancer.choose(usable, comparable=comparable, batch=call.batch)
        rest = [replica for replica in usable if replica.endpoint not in sent_to]
        replica, _ = self._balancer.choose(rest or usable, comparable=False)
        sent_to.add(replica.endpoint)
        return replica, 0

    def _choose_again(self, others: Sequence[Replica], call: OutgoingCall) -> Replica:
        """Choose a replica for another try, which is compared with nothing: it must not be the trial of a slow one."""
        sent_to = set() if call.sent_to is None else call.sent_to
        rest = [replica for replica in others if replica.endpoint not in sent_to]
        replica, _ = self._balancer.choose(rest or others, comparable=False)
        sent_to.add(replica.endpoint)
        return replica

    async def _ask(
        self, replica: Replica, call: OutgoingCall, ticket: int = 0, late_seconds: float | None = None
    ) -> ReplicaAnswer:
        load, began, ending = replica.load, time.monotonic(), ReplicaCallStatus.REFUSED
        if not load.in_flight:
            load.active_at = began
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
            load.late_until, load.active_at = 0.0, time.monotonic()
        except asyncio.CancelledError:
            ending = ReplicaCallStatus.GIVEN_UP
            raise
        except (StreamedCallError, grpc.aio.AioRpcError) as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                ending = ReplicaCallStatus.GIVEN_UP
                if time.monotonic() - began >= LEAST_SECONDS:
                    call.on_failure(time.monotonic() - began)
            elif error.code() in _BROKEN_OFF and _has_begun(error):
                call.on_failure(time.monotonic() - began)
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

    async def _ask_hedged(
        self, replica: Replica, call: OutgoingCall, ticket: int, late_seconds: float | None
    ) -> ReplicaAnswer:
        """Make one call, and a copy on another replica if it takes long.

        The copy is not given up for a third replica.
        """

        def copy() -> Coroutine[Any, Any, ReplicaAnswer] | None:
            others = [] if self._closed else self._others(replica, call)
            return self._ask(self._choose_again(others, call), call.repeated()) if others else None

        answered, by_copy = await self.hedging.race(
            self._ask(replica, call, ticket, late_seconds), copy, call.hedge_least_seconds or 0.0
        )
        if by_copy:
            self._balancer.outrun(replica.load)
        return answered

    def _others(self, replica: Replica, call: OutgoingCall) -> list[Replica]:
        """Return the other replicas that decide by the inputs of a call."""
        try:
            return self._usable(call.digest, excluding=replica)
        except DisagreementError:
            return []

    async def _ask_another(self, replica: Replica, call: OutgoingCall) -> ReplicaAnswer:
        """Call another replica than the one whose inputs have just changed; it has not executed the call."""
        others = self._usable(call.digest, excluding=replica)
        if not others:
            raise DisagreementError
        other = self._choose_again(others, call)
        return await self._ask(other, call)

    async def _repeat_late(
        self,
        replica: Replica,
        call: OutgoingCall,
        call_unary: Any,
        error: StreamedCallError | grpc.aio.AioRpcError,
    ) -> ReplicaAnswer:
        """Call another replica than the one that is late, once, if the review has time for that.

        The last one that is ready is left alone: what the review did to the first, it would do to that.
        """
        if not call.repeatable or call.deadline.passed or self._closed:
            raise error
        others = self._usable(call.digest, excluding=replica)
        self._balancer.late(replica.load)
        if len(others) < _AT_LEAST_FOR_LATE_CALLS or not self._budget.spend():
            raise error
        other = self._choose_again(others, call)
        call = call.repeated()
        try:
            return await self._ask(other, call)
        except (StreamedCallError, grpc.aio.AioRpcError) as second:
            if _has_begun(second):
                raise
            return await self._repeat_broken_off(other, call, call_unary, second)

    async def _repeat_broken_off(
        self,
        replica: Replica,
        call: OutgoingCall,
        call_unary: Any,
        error: StreamedCallError | grpc.aio.AioRpcError,
    ) -> ReplicaAnswer:
        if not self._may_repeat(error):
            raise error
        begun = _has_begun(error)
        call = call.repeated() if begun else call
        if others := self._usable(call.digest, excluding=replica):
            other = self._choose_again(others, call)
            try:
                return await self._ask(other, call)
            except (StreamedCallError, grpc.aio.AioRpcError) as second:
                # What may have been executed twice is not executed a third time: it may be what ends the replicas.
                if (begun and _has_begun(second)) or not self._may_repeat(second):
                    raise
        try:
            return ReplicaAnswer(await call_alone(call_unary, call))
        except grpc.aio.AioRpcError as last:
            if last.code() in _BROKEN_OFF:
                self._budget.spend(MAX_ATTEMPTS - 1)  # gRPC has counted them itself
            raise

    def _may_repeat(self, error: StreamedCallError | grpc.aio.AioRpcError) -> bool:
        """Tell whether a call that ended so may be made again; if so, the budget has paid for it."""
        return error.code() in _BROKEN_OFF and not self._closed and self._budget.spend()

    async def close(self) -> None:
        """Close all replicas; calls in flight fail."""
        self._closed = True
        retiring = tuple(self._tasks)
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
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


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
