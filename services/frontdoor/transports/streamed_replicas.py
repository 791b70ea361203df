"""The replicas of a service with a stream to each: calls go to them in turn.

Large requests go to a replica by themselves, on a connection of their own. A call that a replica took along when it
broke off goes to another one. Only where no replica is known that can be asked, a call goes over a channel to all of
them, and gRPC chooses. Replicas that decide by other inputs than the call are not asked.
"""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc

from frontdoor.transports.call_streams import StreamedCallError
from frontdoor.transports.replicas import Replica
from frontdoor.transports.retry_budgets import MOST_ATTEMPTS, RetryBudget
from pratique.rpc.inputs import NOT_HELD
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


class DisagreementError(Exception):
    """There are replicas that can be asked, and none decides by what the call is to be decided by."""


class Answered(NamedTuple):
    """An answer."""

    answer: bytes
    endpoint: str = ""
    """Who gave it; empty where only gRPC knows."""


class StreamedReplicas:
    """Makes calls of one method."""

    def __init__(
        self,
        method: CarriedMethod,
        open_channel: Callable[[str], grpc.aio.Channel],
        scheme: str = "grpc",
        *,
        streams: bool = True,
    ) -> None:
        """Know no replicas yet.

        Args:
            method: What is called.
            open_channel: Makes a channel to one target, as things are when it is called.
            scheme: Of endpoints, for people.
            streams: Open a stream to each; else each call is made by itself.
        """
        self._method = method
        self._open = open_channel
        self._scheme = scheme
        self._streams = streams
        self._replicas: dict[str, Replica] = {}
        self._turn = 0
        self._closed = False
        self._budget = RetryBudget()
        self._retiring: set[asyncio.Task[None]] = set()

    @property
    def usable(self) -> tuple[Replica, ...]:
        """The replicas that get calls now, if they agree with whoever calls."""
        return tuple(one for one in self._replicas.values() if one.usable)

    def use(self, targets: Iterable[str]) -> None:
        """Ask these from now on, and those that were known before for as long as they can be asked."""
        wanted = frozenset(targets)
        for target in wanted - self._replicas.keys():
            self._replicas[target] = self._replica(target)
        for target in self._replicas.keys() - wanted:
            if not self._replicas[target].usable:
                self._retire(self._replicas.pop(target))

    def renew(self) -> None:
        """Go on with new channels; calls under way finish on those that they began on."""
        for target, before in self._replicas.items():
            self._replicas[target] = self._replica(target)
            self._retire(before)

    def _replica(self, target: str) -> Replica:
        endpoint = f"{self._scheme}://{target.partition(':')[2].lstrip('/')}"
        return Replica(functools.partial(self._open, target), self._method, endpoint, streams=self._streams)

    async def ask(
        self, request: bytes, deadline: Deadline, metadata: Carried | None, alone: Any, digest: str = ""
    ) -> Answered:
        """Make one call, and make it again where whoever was asked broke off. ``alone`` makes calls by themselves.

        Where ``digest`` is given, only replicas are asked that decide by its inputs.

        Raises:
            DisagreementError: there are replicas, and none decides by these.
            StreamedCallError: it has no answer.
            AioRpcError: likewise, of one made by itself.
        """
        replica = self._next(digest)
        if replica is None:
            return Answered(await _by_itself(alone, request, deadline, metadata))
        try:
            answered = await self._ask(replica, request, deadline, metadata)
        except (StreamedCallError, grpc.aio.AioRpcError) as error:
            if error.code() is NOT_HELD and digest:
                return await self._ask_another(replica, request, deadline, metadata, digest)
            if error.code() is not _BROKE_OFF or self._closed or not self._budget.spend():
                raise
            if getattr(error, "begun", True):
                metadata = (*(metadata or ()), (ATTEMPTS, "1"))
            return await self._repeat(replica, request, deadline, metadata, alone, digest)
        self._budget.earn()
        return answered

    async def _ask(
        self, replica: Replica, request: bytes, deadline: Deadline, metadata: Carried | None
    ) -> Answered:
        aside = len(request) > _LONGEST_REQUEST
        return Answered(await replica.ask(request, deadline, metadata, aside=aside), replica.endpoint)

    async def _ask_another(
        self, replica: Replica, request: bytes, deadline: Deadline, metadata: Carried | None, digest: str
    ) -> Answered:
        """Ask another than the one that has just changed its mind; nothing has been done there."""
        other = self._next(digest, but=replica)
        if other is None:
            raise DisagreementError
        return await self._ask(other, request, deadline, metadata)

    async def _repeat(  # noqa: PLR0917 - as above
        self,
        replica: Replica,
        request: bytes,
        deadline: Deadline,
        metadata: Carried | None,
        alone: Any,
        digest: str,
    ) -> Answered:
        other = self._next(digest, but=replica)
        if other is not None:
            try:
                return await self._ask(other, request, deadline, metadata)
            except (StreamedCallError, grpc.aio.AioRpcError) as error:
                if error.code() is not _BROKE_OFF or self._closed or not self._budget.spend():
                    raise
        try:
            return Answered(await _by_itself(alone, request, deadline, metadata))
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

    def _next(self, digest: str, but: Replica | None = None) -> Replica | None:
        """Whose turn it is; None where nobody is known to whom a call could be made."""
        usable = [one for one in self._replicas.values() if one.usable and one is not but]
        if digest and usable:
            usable = [one for one in usable if one.holds(digest)]
            if not usable:
                raise DisagreementError
        if not usable:
            return None
        self._turn += 1
        return usable[self._turn % len(usable)]

    def _retire(self, replica: Replica) -> None:
        task = asyncio.ensure_future(replica.retire())
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)


async def _by_itself(alone: Any, request: bytes, deadline: Deadline, metadata: Carried | None) -> bytes:
    return bytes(await alone(request, timeout=deadline.remaining_seconds, metadata=metadata))
