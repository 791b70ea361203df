"""The gRPC transport, for the services of this suite and for any service that implements ``proto/``.

Calls to services of this suite go to individually known replicas, and are retried on another if one breaks off.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from pratique.admission.controllers import Phase
from pratique.admission.results import Outcome
from pratique.admission.reviews import Call, Deadline, Review
from pratique.admission.v1.mutator_service_pb2 import MutateResponse
from pratique.admission.v1.validator_service_pb2 import ValidateResponse
from pratique.apimachinery.errors import (
    BadAnswerError,
    CallError,
    CallTimeoutError,
    MismatchError,
    UnreachableError,
)
from pratique.rpc import messages
from pratique.rpc.handlers import ATTEMPTS_KEY, CANCELED, CODE_NAMES, NOT_HELD, OK
from pratique.rpc.streams import STREAMED_METHODS, StreamedMethod
from pratique.telemetry.tracing import TRACE_METADATA, TraceMetadata
from pratique_frontdoor.transports.balancing import Balancer, ReplicaCallStatus, ReplicaLoad
from pratique_frontdoor.transports.channels import (
    LOOKUP_SECONDS,
    MAX_ATTEMPTS,
    MAX_TOKENS,
    TOKEN_RATIO,
    NameWatch,
    Options,
    RenewableChannel,
    Resolve,
    channel_options,
    fixed_targets,
    replica_target,
    resolve_name,
    watched_name,
)
from pratique_frontdoor.transports.loop_streams import StreamConnector
from pratique_frontdoor.transports.replicas import Replica, StreamedCallError

_log = logging.getLogger(__name__)

Observe: TypeAlias = "Callable[[str, float], None]"


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


class StreamedReplicas:
    """Calls one method on the replicas of a service."""

    def __init__(
        self,
        method: StreamedMethod,
        open_channel: Callable[[str], grpc.aio.Channel],
        scheme: str = "grpc",
        *,
        streams: bool = True,
        connector: StreamConnector | None = None,
        slow_seconds: float = 10.0,
    ) -> None:
        """Start without replicas.

        Args:
            method: The method to call.
            open_channel: Returns a new channel to one target, with the current credentials.
            scheme: The scheme of endpoints for display.
            streams: Open a stream to each; otherwise all calls are unary.
            connector: Opens streams in the event loop where a replica has a listener for them.
            slow_seconds: How long a slow replica is excluded the first time; 0 excludes none.
        """
        self._method = method
        self._open = open_channel
        self._scheme = scheme
        self._streams = streams
        self._connector = connector
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
        return Replica(
            open_channel,
            self._method,
            load,
            self._endpoint(target),
            streams=self._streams,
            open_stream=None if self._connector is None else functools.partial(self._connector.open, target),
        )

    def _endpoint(self, target: str) -> str:
        return f"{self._scheme}://{target.partition(':')[2].lstrip('/')}"

    async def ask(
        self,
        request: bytes,
        deadline: Deadline,
        metadata: TraceMetadata | None,
        call_unary: Any,
        digest: str = "",
    ) -> ReplicaAnswer:
        """Make one call, and retry it if the replica broke off. ``alone`` makes unary calls without choosing a replica.

        With a ``digest``, only replicas are called that decide by its inputs.

        Raises:
            DisagreementError: there are replicas, and none decides by these inputs.
            StreamedCallError: the call has no answer.
            AioRpcError: the same for a unary call.
        """
        separately = len(request) > _MAX_STREAMED_BYTES
        usable = self._usable(digest)
        if not usable:
            return ReplicaAnswer(await _call_unary(call_unary, request, deadline, metadata))
        replica, ticket = self._balancer.choose(usable, comparable=not separately)
        try:
            answered = await self._ask(replica, request, deadline, metadata, ticket)
        except (StreamedCallError, grpc.aio.AioRpcError) as error:
            if error.code() is NOT_HELD and digest:
                return await self._ask_another(replica, request, deadline, metadata, digest)
            if error.code() is not _BROKEN_OFF or self._closed or not self._budget.spend():
                raise
            if getattr(error, "begun", True):
                metadata = (*(metadata or ()), (ATTEMPTS_KEY, "1"))
            return await self._repeat(replica, request, deadline, metadata, call_unary, digest)
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
            separately = len(request) > _MAX_STREAMED_BYTES
            answer = await replica.ask(request, deadline, metadata, separately=separately)
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
        others = self._usable(digest, excluding=replica)
        if not others:
            raise DisagreementError
        other, _ = self._balancer.choose(others, comparable=False)
        return await self._ask(other, request, deadline, metadata)

    async def _repeat(  # noqa: PLR0917 - the arguments of one call
        self,
        replica: Replica,
        request: bytes,
        deadline: Deadline,
        metadata: TraceMetadata | None,
        call_unary: Any,
        digest: str,
    ) -> ReplicaAnswer:
        if others := self._usable(digest, excluding=replica):
            other, _ = self._balancer.choose(others, comparable=False)
            try:
                return await self._ask(other, request, deadline, metadata)
            except (StreamedCallError, grpc.aio.AioRpcError) as error:
                if error.code() is not _BROKEN_OFF or self._closed or not self._budget.spend():
                    raise
        try:
            return ReplicaAnswer(await _call_unary(call_unary, request, deadline, metadata))
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


async def _call_unary(
    call_unary: Any, request: bytes, deadline: Deadline, metadata: TraceMetadata | None
) -> bytes:
    return bytes(await call_unary(request, timeout=deadline.remaining_seconds, metadata=metadata))


_UNREADABLE = "rpc error: code = Internal desc = grpc: failed to unmarshal the received message"
"""The message of Go's client, without its parser's details about the bytes."""

_MessageT = TypeVar("_MessageT", bound=Message)


class GrpcTransport:
    """Calls a service over gRPC, balanced over all addresses that its name resolves to."""

    def __init__(  # noqa: PLR0913 - keyword arguments with defaults
        self,
        target: str,
        *,
        endpoint: str = "",
        credentials: grpc.ChannelCredentials | Callable[[], grpc.ChannelCredentials] | None = None,
        server_name: str = "",
        failure_prefix: str = "",
        health_checked: bool = True,
        resolve: Resolve = resolve_name,
        look_seconds: float = LOOKUP_SECONDS,
        observe: Observe | None = None,
        streamed: Phase | None = None,
        streams: bool = True,
        connector: StreamConnector | None = None,
        slow_seconds: float = 10.0,
        ours: bool = False,
    ) -> None:
        """Open a channel to ``target`` (gRPC name syntax); it connects on first use, streams connect immediately.

        Args:
            target: The service, which may have many replicas.
            endpoint: What is displayed instead of the target.
            credentials: The TLS credentials, or a function that returns those of each new channel; None connects
                without TLS.
            server_name: The name that the service's certificate must have; by default the name in the target.
            failure_prefix: The start of the message of every failed call.
            health_checked: Whether the service implements ``grpc.health.v1``, which other services need not.
            resolve: Resolves the target's name, so that new replicas are found.
            look_seconds: How often the name is resolved.
            observe: Called after each call with gRPC's code by Go's name, and seconds.
            streamed: The phase whose calls go to individually known replicas where possible. Only services of this
                suite support it.
            streams: Make those calls on a stream to each replica where possible; otherwise they are unary.
            connector: Opens those streams in the event loop where a replica has a listener for them; None leaves all
                to grpcio.
            slow_seconds: How long a replica that is much slower than others is excluded at first; 0 excludes none.
            ours: Whether it is a mutator or validator of this suite: its answers name the review and the digest of its
                inputs.
        """
        self.endpoint = endpoint or target
        self._failure_prefix = failure_prefix
        self._observe = observe
        self._ours = ours
        self.mismatched: Callable[[str], str] = _no_differences
        """Returns how the replicas' inputs differ from those of a digest."""
        self.addresses = 1
        """The number of addresses at the last lookup of its name."""
        options = channel_options(ours=health_checked, server_name=server_name)
        # The certificate of a replica has the name that it was found by, not its address.
        name = server_name or (watched_name(target) if credentials is not None else "")
        replica_options = channel_options(ours=True, server_name=name, retries=False)

        def open_channel(target: str, options: Options) -> grpc.aio.Channel:
            if credentials is None:
                return grpc.aio.insecure_channel(target, options=options)
            shown = credentials() if callable(credentials) else credentials
            return grpc.aio.secure_channel(target, shown, options=options)

        self._unary_calls: dict[Phase, Any] = {}
        self._channel = RenewableChannel(lambda: open_channel(target, options), self._use)
        self._streamed: dict[Phase, StreamedReplicas] = {}
        if streamed is not None:
            self._streamed[streamed] = StreamedReplicas(
                STREAMED_METHODS[streamed],
                lambda replica: open_channel(replica, replica_options),
                "grpc" if credentials is None else "grpcs",
                streams=streams,
                connector=connector,
                slow_seconds=slow_seconds,
            )
        self._watching = self._watch(target, resolve, look_seconds)

    def _use(self, channel: grpc.aio.Channel) -> None:
        """Make new calls on a channel."""
        # Answers stay bytes here: grpc would turn an invalid message into None and log it.
        self._unary_calls = {
            phase: channel.unary_unary(method.path, None, None) for phase, method in STREAMED_METHODS.items()
        }

    def _watch(self, target: str, resolve: Resolve, seconds: float) -> asyncio.Task[None] | None:
        """Watch for new replicas if the target is a name."""
        name = watched_name(target)
        if not name:
            self._stream_to(fixed_targets(target))
            return None
        renew = functools.partial(self._channel.renew, only_if_ready=True)
        # If the target names a name server, only gRPC asks that one.
        streams = target.startswith("dns:///") or resolve is not resolve_name

        async def look(name: str) -> frozenset[str]:
            found = await resolve(name)
            self.addresses = len(found)
            if streams:
                self._stream_to(replica_target(target, address) for address in found)
            return found

        return asyncio.ensure_future(NameWatch(name, renew, look, seconds).run())

    @property
    def streams(self) -> int:
        """The number of replicas that get calls directly."""
        return len(self.replicas)

    @property
    def replicas(self) -> tuple[Replica, ...]:
        """The individually known replicas that can be called now."""
        return tuple(replica for streamed in self._streamed.values() for replica in streamed.usable)

    def _stream_to(self, targets: Iterable[str]) -> None:
        wanted = tuple(targets)
        for streamed in self._streamed.values():
            streamed.use(wanted)

    def agrees(self, digest: str) -> bool:
        """Return whether a replica decides by the inputs of a digest; true if no replicas are known individually."""
        replicas = self.replicas
        return not replicas or any(replica.holds(digest) for replica in replicas)

    @property
    def channel(self) -> grpc.aio.Channel:
        """The channel of new calls, for health checks."""
        return self._channel.current

    async def mutate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Run mutating controllers one after another, in one call."""
        digest = review.digest if self._ours else ""
        call = self._ask(Phase.MUTATE, messages.mutate_request(review, calls, digest), deadline, digest)
        answer, endpoint = await self._answer(call, MutateResponse, digest)
        messages.check_answered_review(answer, review.uid, ours=self._ours)
        return messages.outcomes_from_mutate(answer, calls, endpoint)

    async def validate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Run validating controllers concurrently, in one call."""
        digest = review.digest if self._ours else ""
        call = self._ask(Phase.VALIDATE, messages.validate_request(review, calls, digest), deadline, digest)
        answer, endpoint = await self._answer(call, ValidateResponse, digest)
        messages.check_answered_review(answer, review.uid, ours=self._ours)
        return messages.outcomes_from_validate(answer, calls, endpoint)

    async def _ask(self, phase: Phase, message: Message, deadline: Deadline, digest: str) -> ReplicaAnswer:
        request, call_unary, streamed = (
            message.SerializeToString(),
            self._unary_calls[phase],
            self._streamed.get(phase),
        )
        if streamed is not None:
            return await streamed.ask(request, deadline, TRACE_METADATA.get(), call_unary, digest)
        return ReplicaAnswer(
            await call_unary(request, timeout=deadline.remaining_seconds, metadata=TRACE_METADATA.get()),
            self.endpoint,
        )

    async def renew(self) -> None:
        """Replace all channels, to use new credentials, whether the new ones connect or not."""
        await self._channel.renew()
        for streamed in self._streamed.values():
            streamed.renew()

    async def close(self) -> None:
        """Close all channels; calls in flight are cancelled."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        for streamed in self._streamed.values():
            await streamed.close()
        await self._channel.close()

    async def _answer(
        self, call: Awaitable[ReplicaAnswer], message: type[_MessageT], digest: str
    ) -> tuple[_MessageT, str]:
        begun, code = time.perf_counter(), CODE_NAMES[grpc.StatusCode.INTERNAL]
        try:
            raw, endpoint = await call
            answer: Any = message.FromString(raw)
            code = OK
        except DecodeError:
            raise BadAnswerError(f"{self._failure_prefix}{_UNREADABLE}") from None
        except (StreamedCallError, grpc.aio.AioRpcError) as error:
            code = CODE_NAMES[error.code()]
            if digest and error.code() is NOT_HELD:
                raise self._mismatch(digest) from None
            raise _call_error(error.code(), self._failure_prefix) from None
        except DisagreementError:
            code = CODE_NAMES[NOT_HELD]
            raise self._mismatch(digest) from None
        except asyncio.CancelledError:
            code = CANCELED
            raise
        finally:
            if self._observe is not None:
                self._observe(code, time.perf_counter() - begun)
        if digest and answer.digest != digest:
            raise self._mismatch(digest, endpoint)
        return answer, endpoint or self.endpoint

    def _mismatch(self, digest: str, endpoint: str = "") -> MismatchError:
        where = f" at {endpoint}" if endpoint else ""
        differences = self.mismatched(digest)
        return MismatchError(f"the service{where} decides by other inputs than this front door{differences}")


def _no_differences(_: str) -> str:
    return ""


def _call_error(code: grpc.StatusCode, prefix: str) -> CallError:
    """Return a CallError with the message of Go's gRPC.

    The details of the peer are left out: they could contain anything.
    """
    match code:
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return CallTimeoutError(
                f"{prefix}rpc error: code = DeadlineExceeded desc = context deadline exceeded"
            )
        case grpc.StatusCode.UNAVAILABLE:
            return UnreachableError(
                f"{prefix}rpc error: code = Unavailable desc = the service cannot be reached"
            )
        case _:
            return CallError(
                f"{prefix}rpc error: code = {CODE_NAMES[code]} desc = the service refused the call"
            )
