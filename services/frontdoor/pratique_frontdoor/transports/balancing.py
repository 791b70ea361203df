"""Balancing: which replica gets a call, and which are excluded because they are much slower than the others.

A call goes to a replica with few calls in flight. Among about equally loaded replicas the choice is random, and only
calls assigned at random are compared: reviews that are slow everywhere then reach all replicas equally. Nothing here
does I/O or starts tasks.
"""

from __future__ import annotations

import enum
import random
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

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
_LATE_SECONDS = 2.0
"""How long a replica that did not answer in time is avoided, unless it answers another call meanwhile. 2: its calls
are late after 1 s by default, and a frozen replica is noticed within 7, so that at most three reviews wait for it."""


class ReplicaCallStatus(enum.Enum):
    """How a call ended, for balancing."""

    ANSWERED = "answered"
    """The call was answered."""
    GIVEN_UP = "given up"
    """Its deadline passed or it was cancelled: it would have taken at least that long."""
    REFUSED = "refused"
    """Any other status. The request may be the reason, so it says nothing about the replica."""


class ReplicaLoad:
    """The load and speed of one replica."""

    __slots__ = (
        "doublings",
        "ended",
        "epoch",
        "excluded",
        "exclusions",
        "in_flight",
        "late",
        "late_until",
        "longest",
        "longest_before",
        "name",
        "score",
        "seen",
        "seen_before",
        "span_ends",
        "trying",
        "until",
    )

    def __init__(self, name: str) -> None:
        """Start idle."""
        self.name = name
        self.in_flight = 0
        """Calls without an answer, and refused ones for a moment longer."""
        self.ended = 0
        """Calls that have ended, whatever came of them."""
        self.late = 0
        """Calls that were given up for another replica."""
        self.late_until = 0.0
        """Until when it is avoided because a call was late; 0 if it has answered since."""
        self.excluded = False
        """Whether it gets no calls because it is slow."""
        self.exclusions = 0
        """How often it has been excluded."""
        self.span_ends = float("-inf")
        """When the current span of measurement ends."""
        self.seen = self.seen_before = 0
        """Calls in the current span, and in the previous one."""
        self.longest = self.longest_before = 0.0
        """Seconds of the longest of these calls."""
        self.score = 0
        """Grows with slow calls, and falls with others."""
        self.epoch = 1
        """The ticket of calls that count; it changes whenever the replica is excluded, tried, or used again."""
        self.until = float("-inf")
        """When its next trial is due, or its last one was."""
        self.trying = False
        """Whether a trial is in progress."""
        self.doublings = 0
        """How often the time of its exclusion has doubled."""


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
        if batch > 1:
            filling = [candidate for candidate in candidates if 0 < candidate.queued < batch]
            if filling:
                return filling[0], 0
        fewest = min(candidate.load.in_flight for candidate in candidates)
        even = [
            candidate for candidate in candidates if candidate.load.in_flight <= fewest + _EVEN_DIFFERENCE
        ]
        chosen = even[int(self._chance() * len(even))]
        # Durations count only if all replicas had the same chance; otherwise busy ones would be spared the slow calls
        # of the others.
        return chosen, chosen.load.epoch if comparable and len(even) == len(candidates) else 0

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


def _begin_span(load: ReplicaLoad, now: float) -> None:
    over = now >= load.span_ends + _SPAN_SECONDS
    load.seen_before, load.longest_before = (0, 0.0) if over else (load.seen, load.longest)
    load.seen, load.longest = 0, 0.0
    load.span_ends = now + _SPAN_SECONDS
