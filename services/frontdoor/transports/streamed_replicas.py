"""The replicas of a service with a stream to each: calls go to those that have least to do.

Large requests go to a replica by themselves, on a connection of their own. A call that a replica took along when it
broke off goes to another one. Only where no replica is known that can be asked, a call goes over a channel to all of
them, and gRPC chooses. Replicas that decide by other inputs than the call are not asked.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc

from frontdoor.transports.balancing import Balancer, Ending
from frontdoor.transports.call_streams import StreamedCallError
from frontdoor.transports.replicas import Replica
from frontdoor.transports.retry_budgets import MOST_ATTEMPTS, RetryBudget
from pratique.rpc.inputs import NOT_HELD
from pratique.rpc.repetitions import ATTEMPTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from frontdoor.transports.balancing import Load
    from pratique.calls import Deadline
    from pratique.rpc.stream_methods import CarriedMethod
    from pratique.tracing.contexts import Carried

_log = logging.getLogger(__name__)

_BROKE_OFF = grpc.StatusCode.UNAVAILABLE
_LONGEST_REQUEST = 64 * 1024
"""What is longer goes by itself, for it would hold up what is behind it. 64 KiB: a frame of HTTP/2 has 16, and few Pods
have more than 20."""
_REFUSED_SECONDS = 1.0
"""How long a refused call counts as in flight. One that refuses at once would have least to do, and get all calls. 1:
the others then have the calls of a second before that one has another."""


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
        slow_seconds: float = 10.0,
    ) -> None:
        """Know no replicas yet.

        Args:
            method: What is called.
            open_channel: Makes a channel to one target, as things are when it is called.
            scheme: Of endpoints, for people.
            streams: Open a stream to each; else each call is made by itself.
            slow_seconds: For how long a slow one is left out the first time; 0: never.
        """
        self._method = method
        self._open = open_channel
        self._scheme = scheme
        self._streams = streams
        self._replicas: dict[str, Replica] = {}
        self._balancer = Balancer(slow_seconds, tell=_tell)
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
            self._replicas[target] = self._replica(target, self._balancer.add(self._endpoint(target)))
        for target in self._replicas.keys() - wanted:
            if not self._replicas[target].usable:
                gone = self._replicas.pop(target)
                self._balancer.remove(gone.load)
                self._retire(gone)

    def renew(self) -> None:
        """Go on with new channels; calls under way finish on those that they began on."""
        for target, before in self._replicas.items():
            self._replicas[target] = self._replica(target, before.load)
            self._retire(before)

    def _replica(self, target: str, load: Load) -> Replica:
        open_channel = functools.partial(self._open, target)
        return Replica(open_channel, self._method, load, self._endpoint(target), streams=self._streams)

    def _endpoint(self, target: str) -> str:
        return f"{self._scheme}://{target.partition(':')[2].lstrip('/')}"

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
        aside = len(request) > _LONGEST_REQUEST
        usable = self._usable(digest)
        if not usable:
            return Answered(await _by_itself(alone, request, deadline, metadata))
        replica, ticket = self._balancer.choose(usable, comparable=not aside)
        try:
            answered = await self._ask(replica, request, deadline, metadata, ticket)
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
        self,
        replica: Replica,
        request: bytes,
        deadline: Deadline,
        metadata: Carried | None,
        ticket: int = 0,
    ) -> Answered:
        load, began, ending = replica.load, time.monotonic() if ticket else 0.0, Ending.REFUSED
        load.in_flight += 1
        try:
            aside = len(request) > _LONGEST_REQUEST
            answer = await replica.ask(request, deadline, metadata, aside=aside)
            ending = Ending.ANSWERED
        except asyncio.CancelledError:
            ending = Ending.GIVEN_UP
            raise
        except (StreamedCallError, grpc.aio.AioRpcError) as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                ending = Ending.GIVEN_UP
            raise
        finally:
            if ending is Ending.REFUSED:
                asyncio.get_running_loop().call_later(_REFUSED_SECONDS, _end_refused, load)
            else:
                load.in_flight -= 1
            if ticket:
                self._balancer.end(load, ticket, time.monotonic() - began, ending)
        return Answered(answer, replica.endpoint)

    async def _ask_another(
        self, replica: Replica, request: bytes, deadline: Deadline, metadata: Carried | None, digest: str
    ) -> Answered:
        """Ask another than the one that has just changed its mind; nothing has been done there."""
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
        metadata: Carried | None,
        alone: Any,
        digest: str,
    ) -> Answered:
        if others := self._usable(digest, but=replica):
            other, _ = self._balancer.choose(others, comparable=False)
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

    def _usable(self, digest: str, but: Replica | None = None) -> list[Replica]:
        """Those to whom a call could be made.

        Raises:
            DisagreementError: there are such, and none decides by these inputs.
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


def _end_refused(load: Load) -> None:
    load.in_flight -= 1


def _tell(load: Load) -> None:
    if load.left_out:
        _log.warning("a replica is left out: it is much slower than others", extra={"address": load.name})
    else:
        _log.info("a replica that was left out is asked again", extra={"address": load.name})


async def _by_itself(alone: Any, request: bytes, deadline: Deadline, metadata: Carried | None) -> bytes:
    return bytes(await alone(request, timeout=deadline.remaining_seconds, metadata=metadata))
