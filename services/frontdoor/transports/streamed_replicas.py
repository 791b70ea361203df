"""The replicas of a service with a stream to each: calls go to them in turn.

What cannot go on a stream goes by itself, over a channel to all of them: calls with large requests, calls that no
replica can take now, and those that a replica took along when it broke off.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc

from frontdoor.transports.call_streams import StreamedCallError
from frontdoor.transports.replicas import Replica
from frontdoor.transports.retry_budgets import MOST_ATTEMPTS, RetryBudget
from pratique.rpc.repetitions import ATTEMPTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pratique.calls import Deadline
    from pratique.rpc.stream_methods import CarriedMethod
    from pratique.tracing.contexts import Carried

_BROKE_OFF = grpc.StatusCode.UNAVAILABLE
_LONGEST_REQUEST = 64 * 1024
"""What is longer goes by itself, for it would hold up what is behind it. 64 KiB: a frame of HTTP/2 has 16, and few Pods
have more than 20."""


class StreamedReplicas:
    """Makes calls of one method."""

    def __init__(self, method: CarriedMethod, open_channel: Callable[[str], grpc.aio.Channel]) -> None:
        """Know no replicas yet. ``open_channel`` makes a channel to one target, as things are when it is called."""
        self._method = method
        self._open = open_channel
        self._replicas: dict[str, Replica] = {}
        self._turn = 0
        self._closed = False
        self._budget = RetryBudget()
        self._retiring: set[asyncio.Task[None]] = set()

    @property
    def usable(self) -> int:
        """How many replicas get calls now."""
        return sum(one.usable for one in self._replicas.values())

    def use(self, targets: Iterable[str]) -> None:
        """Ask these from now on, and those that were known before for as long as they can be asked."""
        wanted = frozenset(targets)
        for target in wanted - self._replicas.keys():
            self._replicas[target] = Replica(self._open(target), self._method)
        for target in self._replicas.keys() - wanted:
            if not self._replicas[target].usable:
                self._retire(self._replicas.pop(target))

    def renew(self) -> None:
        """Go on with new channels; calls under way finish on those that they began on."""
        for target, before in self._replicas.items():
            self._replicas[target] = Replica(self._open(target), self._method)
            self._retire(before)

    async def ask(self, request: bytes, deadline: Deadline, metadata: Carried | None, alone: Any) -> bytes:
        """Make one call, and make it again where whoever was asked broke off. ``alone`` makes calls by themselves.

        Raises:
            StreamedCallError: it has no answer.
            AioRpcError: likewise, of one made by itself.
        """
        replica = self._next() if len(request) <= _LONGEST_REQUEST else None
        if replica is None:
            return bytes(await alone(request, timeout=deadline.remaining_seconds, metadata=metadata))
        try:
            answer = await replica.ask(request, deadline, metadata)
        except (StreamedCallError, grpc.aio.AioRpcError) as error:
            if error.code() is not _BROKE_OFF or self._closed or not self._budget.spend():
                raise
            if getattr(error, "begun", True):
                metadata = (*(metadata or ()), (ATTEMPTS, "1"))
            return await self._repeat(request, deadline, metadata, alone)
        self._budget.earn()
        return answer

    async def _repeat(
        self, request: bytes, deadline: Deadline, metadata: Carried | None, alone: Any
    ) -> bytes:
        try:
            return bytes(await alone(request, timeout=deadline.remaining_seconds, metadata=metadata))
        except grpc.aio.AioRpcError as error:
            if error.code() is _BROKE_OFF:
                self._budget.spend(MOST_ATTEMPTS - 1)  # gRPC has counted them for itself
            raise

    async def close(self) -> None:
        """Let go of everything; calls under way have failed."""
        self._closed = True
        retiring = tuple(self._retiring)
        for task in retiring:
            task.cancel()
        replicas, self._replicas = self._replicas, {}
        await asyncio.gather(*retiring, *(one.close() for one in replicas.values()), return_exceptions=True)

    def _next(self) -> Replica | None:
        usable = [one for one in self._replicas.values() if one.usable]
        if not usable:
            return None
        self._turn += 1
        return usable[self._turn % len(usable)]

    def _retire(self, replica: Replica) -> None:
        task = asyncio.ensure_future(replica.retire())
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)
