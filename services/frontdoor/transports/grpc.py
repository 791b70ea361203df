"""The gRPC transport: the services of this suite, and anybody's that speaks ``proto/``."""

from __future__ import annotations

import asyncio
import functools
import time
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from frontdoor.transports.call_streams import StreamedCallError
from frontdoor.transports.channel_options import channel_options
from frontdoor.transports.channels import RenewableChannel
from frontdoor.transports.name_watches import LOOK_SECONDS, NameWatch, resolve, watched_name
from frontdoor.transports.streamed_replicas import Answered, DisagreementError, StreamedReplicas
from frontdoor.transports.targets import fixed_targets, replica_target
from pratique.admission.v1.mutator_service_pb2 import MutateResponse
from pratique.admission.v1.validator_service_pb2 import ValidateResponse
from pratique.definitions import Phase
from pratique.errors import BadAnswerError, CallError, CallTimeoutError, MismatchError, UnreachableError
from pratique.rpc import messages
from pratique.rpc.codes import CANCELED, NAMES, OK
from pratique.rpc.inputs import NOT_HELD
from pratique.rpc.stream_methods import METHODS
from pratique.tracing.contexts import carried

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from frontdoor.transports.channel_options import Options
    from frontdoor.transports.name_watches import Resolve
    from frontdoor.transports.replicas import Replica
    from pratique.calls import Call, Deadline
    from pratique.outcomes import Outcome
    from pratique.reviews import Review

    Observe: TypeAlias = Callable[[str, float], None]

_ASKS_THE_SYSTEM = resolve
_UNREADABLE = "rpc error: code = Internal desc = grpc: failed to unmarshal the received message"
"""As Go's client says it, without what its parser has to say about the bytes."""

_MessageT = TypeVar("_MessageT", bound=Message)


class GrpcTransport:
    """Asks a service over gRPC, spread over all addresses that its name resolves to."""

    def __init__(  # noqa: PLR0913 - named, and each with a default
        self,
        target: str,
        *,
        endpoint: str = "",
        credentials: grpc.ChannelCredentials | Callable[[], grpc.ChannelCredentials] | None = None,
        server_name: str = "",
        failure_prefix: str = "",
        health_checked: bool = True,
        resolve: Resolve = resolve,
        look_seconds: float = LOOK_SECONDS,
        observe: Observe | None = None,
        streamed: Phase | None = None,
        streams: bool = True,
        slow_seconds: float = 10.0,
        ours: bool = False,
    ) -> None:
        """Open a channel to ``target`` (gRPC name syntax); it connects on first use, streams at once.

        Args:
            target: The service, which may be many replicas.
            endpoint: What people are shown in place of the target.
            credentials: For TLS; a function gives those of each new channel; None connects without TLS.
            server_name: The name that the service's certificate has to have; that in the target where not given.
            failure_prefix: Begins the text of every failed call.
            health_checked: The service answers ``grpc.health.v1``, which somebody else's need not.
            resolve: Looks the target's name up, so that new replicas are found.
            look_seconds: How often it does.
            observe: Told of each call when it has ended: gRPC's code by Go's name, and seconds.
            streamed: The phase whose calls go to replicas that are known one by one, where that is possible. It takes a
                service of this suite.
            streams: Those go on a stream to each replica, where that is possible; else each by itself.
            slow_seconds: For how long one of those that is much slower than others is left out at first; 0: never.
            ours: A mutator or validator of this suite: its answers name the review, and what it was decided by.
        """
        self.endpoint = endpoint or target
        self._failure_prefix = failure_prefix
        self._observe = observe
        self._ours = ours
        self.mismatched: Callable[[str], str] = _unexplained
        """Says of a digest in what the replicas differ from it."""
        self.addresses = 1
        """How many addresses its name has, as far as anybody looked."""
        options = channel_options(ours=health_checked, server_name=server_name)
        # The certificate of a replica has the name by which it was found, not its address.
        name = server_name or (watched_name(target) if credentials is not None else "")
        replica_options = channel_options(ours=True, server_name=name, retries=False)

        def open_channel(target: str, options: Options) -> grpc.aio.Channel:
            if credentials is None:
                return grpc.aio.insecure_channel(target, options=options)
            shown = credentials() if callable(credentials) else credentials
            return grpc.aio.secure_channel(target, shown, options=options)

        self._alone: dict[Phase, Any] = {}
        self._channel = RenewableChannel(lambda: open_channel(target, options), self._use)
        self._streamed: dict[Phase, StreamedReplicas] = {}
        if streamed is not None:
            self._streamed[streamed] = StreamedReplicas(
                METHODS[streamed],
                lambda replica: open_channel(replica, replica_options),
                "grpc" if credentials is None else "grpcs",
                streams=streams,
                slow_seconds=slow_seconds,
            )
        self._watching = self._watch(target, resolve, look_seconds)

    def _use(self, channel: grpc.aio.Channel) -> None:
        """Let calls go through a channel from now on."""
        # Answers stay bytes in there: one that is no message would come as None, and be logged.
        self._alone = {
            phase: channel.unary_unary(method.path, None, None) for phase, method in METHODS.items()
        }

    def _watch(self, target: str, resolve: Resolve, seconds: float) -> asyncio.Task[None] | None:
        """Look for new replicas where the target is a name."""
        name = watched_name(target)
        if not name:
            self._stream_to(fixed_targets(target))
            return None
        renew = functools.partial(self._channel.renew, only_if_ready=True)
        # Where the target names its own name server, only gRPC asks that one.
        streams = target.startswith("dns:///") or resolve is not _ASKS_THE_SYSTEM

        async def look(name: str) -> frozenset[str]:
            found = await resolve(name)
            self.addresses = len(found)
            if streams:
                self._stream_to(replica_target(target, address) for address in found)
            return found

        return asyncio.ensure_future(NameWatch(name, renew, look, seconds).run())

    @property
    def streams(self) -> int:
        """How many replicas get calls other than over that channel."""
        return len(self.replicas)

    @property
    def replicas(self) -> tuple[Replica, ...]:
        """The replicas that can be asked now, as far as they are known one by one."""
        return tuple(one for streamed in self._streamed.values() for one in streamed.usable)

    def _stream_to(self, targets: Iterable[str]) -> None:
        wanted = tuple(targets)
        for streamed in self._streamed.values():
            streamed.use(wanted)

    @property
    def channel(self) -> grpc.aio.Channel:
        """The channel that calls go to now, for health checks."""
        return self._channel.current

    async def mutate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Run mutating halves one after another, in one call."""
        digest = review.digest if self._ours else ""
        call = self._ask(Phase.MUTATE, messages.mutate_request(review, calls, digest), deadline, digest)
        answer, endpoint = await self._answer(call, MutateResponse, digest)
        messages.check_review(answer, review.uid, ours=self._ours)
        return messages.outcomes_from_mutate(answer, calls, endpoint)

    async def validate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Run validating halves side by side, in one call."""
        digest = review.digest if self._ours else ""
        call = self._ask(Phase.VALIDATE, messages.validate_request(review, calls, digest), deadline, digest)
        answer, endpoint = await self._answer(call, ValidateResponse, digest)
        messages.check_review(answer, review.uid, ours=self._ours)
        return messages.outcomes_from_validate(answer, calls, endpoint)

    async def _ask(self, phase: Phase, message: Message, deadline: Deadline, digest: str) -> Answered:
        request, alone, streamed = message.SerializeToString(), self._alone[phase], self._streamed.get(phase)
        if streamed is not None:
            return await streamed.ask(request, deadline, carried(), alone, digest)
        return Answered(
            await alone(request, timeout=deadline.remaining_seconds, metadata=carried()), self.endpoint
        )

    async def renew(self) -> None:
        """Go on with new credentials: new channels take the place of these, whether they connect or not."""
        await self._channel.renew()
        for streamed in self._streamed.values():
            streamed.renew()

    async def close(self) -> None:
        """Close the channel; calls under way are cancelled."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        for streamed in self._streamed.values():
            await streamed.close()
        await self._channel.close()

    async def _answer(
        self, call: Awaitable[Answered], message: type[_MessageT], digest: str
    ) -> tuple[_MessageT, str]:
        begun, code = time.perf_counter(), NAMES[grpc.StatusCode.INTERNAL]
        try:
            raw, endpoint = await call
            answer: Any = message.FromString(raw)
            code = OK
        except DecodeError:
            raise BadAnswerError(f"{self._failure_prefix}{_UNREADABLE}") from None
        except (StreamedCallError, grpc.aio.AioRpcError) as error:
            code = NAMES[error.code()]
            if digest and error.code() is NOT_HELD:
                raise self._mismatch(digest) from None
            raise _call_error(error.code(), self._failure_prefix) from None
        except DisagreementError:
            code = NAMES[NOT_HELD]
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


def _unexplained(_: str) -> str:
    return ""


def _call_error(code: grpc.StatusCode, prefix: str) -> CallError:
    """Make a CallError in the words of Go's gRPC, without the details that the peer sent: they could hold anything."""
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
            return CallError(f"{prefix}rpc error: code = {NAMES[code]} desc = the service refused the call")
