"""The gRPC transport, for the services of this suite and for any service that implements ``proto/``.

Calls to services of this suite go to individually known replicas, and are retried on another if one breaks off.
"""

from __future__ import annotations

import asyncio
import collections
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from pratique.admission.controllers import Phase
from pratique.admission.late_reviews import LateReviews
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
from pratique.processes.review_threads import work_on_text
from pratique.rpc import messages
from pratique.rpc.handlers import CANCELED, CODE_NAMES, NOT_HELD, OK
from pratique.rpc.streams import STREAMED_METHODS
from pratique.rpc.wire_format import FEW_FIELDS_BYTES, check_fields
from pratique.telemetry.tracing import TRACE_METADATA
from pratique_frontdoor.settings import NEVER_HEDGED, HedgeDelay
from pratique_frontdoor.transports.balancing import (
    DisagreementError,
    OutgoingCall,
    ReplicaAnswer,
    StreamedReplicas,
    call_alone,
)
from pratique_frontdoor.transports.channels import (
    LOOKUP_SECONDS,
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
from pratique_frontdoor.transports.hedging import HedgeResult
from pratique_frontdoor.transports.replicas import Replica, StreamedCallError

_log = logging.getLogger(__name__)

Observe: TypeAlias = "Callable[[str, float], None]"


LATE_SECONDS = 1.0
"""When a call that may be repeated is late, unless its service has a time limit of its own. 1: a tenth of the default
timeout of a review, and a hundred times what a hop takes."""
_LATE_BYTES_PER_SECOND = 2 * 1024 * 1024
"""A long request is late later: the slowest that it may be sent and read."""
_LATE_FACTOR = 3
"""A call is never late before this many times its usual duration. 3: as for slow replicas."""
_BATCH_SECONDS = 0.001
"""The work that one message should carry before another replica gets the next call. 1 ms: about what a hop costs, so
that waiting behind others in the same message costs less than another message."""
_MAX_BATCH = 16
"""The most calls that one message should have."""
_WORK_SHARE = 1 / 16
"""The weight of the newest call in the average."""


_SERVICES = {Phase.MUTATE: "mutator", Phase.VALIDATE: "validator"}
"""The services of this suite, for metrics."""


class WorkAverage:
    """How long the controllers of a call take in the service, as an average that forgets."""

    def __init__(self) -> None:
        """Start with work that fills a message alone, until it is known."""
        self._seconds = _BATCH_SECONDS

    @property
    def batch(self) -> int:
        """How many calls one message should have before another replica gets the next one."""
        return min(_MAX_BATCH, max(1, int(_BATCH_SECONDS / self._seconds)))

    def observe(self, outcomes: Iterable[Outcome]) -> None:
        """Observe the outcomes of one call."""
        seconds = sum(outcome.duration_seconds for outcome in outcomes)
        self._seconds += (max(seconds, 1e-6) - self._seconds) * _WORK_SHARE


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
        slow_seconds: float = 10.0,
        timeout_seconds: float | None = None,
        ours: bool = False,
        hedge_delay: HedgeDelay = NEVER_HEDGED,
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
            slow_seconds: How long a replica that is much slower than others is excluded at first; 0 excludes none.
            timeout_seconds: The time limit of each call; None means the review's deadline.
            ours: Whether it is a mutator or validator of this suite: its answers name the review and the digest of its
                inputs.
            hedge_delay: When a call that validates is also made on another replica, if that changes nothing.
        """
        self.endpoint = endpoint or target
        self._failure_prefix = failure_prefix
        self._observe = observe
        self._ours = ours
        self._timeout_seconds = timeout_seconds
        self._work = WorkAverage()
        self._late_reviews = LateReviews(endpoint if streamed is None else _SERVICES[streamed])
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
        self._hedged = hedge_delay != NEVER_HEDGED
        if streamed is not None:
            self._streamed[streamed] = StreamedReplicas(
                STREAMED_METHODS[streamed],
                lambda replica: open_channel(replica, replica_options),
                "grpc" if credentials is None else "grpcs",
                streams=streams,
                slow_seconds=slow_seconds,
                hedge_delay=hedge_delay,
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

    def usable_replicas(self, digest: str, *, idle: bool = False) -> int:
        """Return how many replicas decide by the inputs of a digest; with ``idle``, those without a call in flight."""
        return sum(
            replica.holds(digest) and not (idle and replica.load.in_flight) for replica in self.replicas
        )

    @property
    def replicas(self) -> tuple[Replica, ...]:
        """The individually known replicas that can be called now."""
        return tuple(replica for streamed in self._streamed.values() for replica in streamed.usable)

    @property
    def hedges(self) -> Mapping[HedgeResult, int]:
        """How many calls took longer than the delay of hedging, by what came of them; empty if none is hedged."""
        if not self._hedged:
            return {}
        results = collections.Counter[HedgeResult]()
        for streamed in self._streamed.values():
            results.update(streamed.hedging.results)
        return dict(results)

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
        self._refuse_late(review)
        request = messages.mutate_request(review, calls, review.digest if self._ours else "")
        call = self._outgoing(request, review, calls, deadline)
        answer, endpoint, size = await self._answer(
            self._ask(Phase.MUTATE, call), MutateResponse, call.digest
        )
        if self._late_reviews.remembered:
            self._late_reviews.answer(review)
        messages.check_answered_review(answer, review.uid, ours=self._ours)
        if call.digest:
            messages.record_checks(answer, review)
        outcomes = await work_on_text(size, messages.outcomes_from_mutate, answer, calls, endpoint)
        self._work.observe(outcomes)
        return outcomes

    async def validate(
        self,
        review: Review,
        calls: Sequence[Call],
        deadline: Deadline,
        *,
        sent_to: set[str] | None = None,
        expected_seconds: float = 0.0,
    ) -> Sequence[Outcome]:
        """Run validating controllers concurrently, in one call.

        Args:
            review: The review.
            calls: The controllers.
            deadline: The deadline of the review.
            sent_to: The endpoints that the other shares of a divided review were sent to, and where this one is added.
            expected_seconds: How long the controllers usually take.
        """
        self._refuse_late(review)
        request = messages.validate_request(review, calls, review.digest if self._ours else "")
        call = self._outgoing(request, review, calls, deadline, sent_to, expected_seconds)
        answer, endpoint, size = await self._answer(
            self._ask(Phase.VALIDATE, call), ValidateResponse, call.digest
        )
        if self._late_reviews.remembered:
            self._late_reviews.answer(review)
        messages.check_answered_review(answer, review.uid, ours=self._ours)
        if call.digest:
            messages.record_checks(answer, review)
        outcomes = await work_on_text(size, messages.outcomes_from_validate, answer, calls, endpoint)
        self._work.observe(outcomes)
        return outcomes

    def _refuse_late(self, review: Review) -> None:
        """Fail at once where the service was late with the review, or died of it, twice."""
        if self._late_reviews.remembered and self._late_reviews.refuse(review):
            raise _call_error(grpc.StatusCode.DEADLINE_EXCEEDED, self._failure_prefix)

    def _outgoing(  # noqa: PLR0917 - private, and called with what its callers got
        self,
        message: Message,
        review: Review,
        calls: Sequence[Call],
        deadline: Deadline,
        sent_to: set[str] | None = None,
        expected_seconds: float = 0.0,
    ) -> OutgoingCall:
        request = message.SerializeToString()
        repeatable = not any(call.commits_quota for call in calls)
        late_seconds = None
        sending_seconds = len(request) / _LATE_BYTES_PER_SECOND
        if self._streamed and repeatable and self._timeout_seconds is None:
            late_seconds = max(LATE_SECONDS, _LATE_FACTOR * expected_seconds) + sending_seconds
        hedged = self._hedged and repeatable and not any(call.asked_once for call in calls)
        return OutgoingCall(
            request=request,
            deadline=deadline,
            metadata=TRACE_METADATA.get(),
            digest=review.digest if self._ours else "",
            timeout_seconds=self._timeout_seconds,
            late_seconds=late_seconds,
            repeatable=repeatable,
            sent_to=sent_to,
            batch=self._work.batch,
            hedge_least_seconds=_LATE_FACTOR * expected_seconds + sending_seconds if hedged else None,
            on_failure=functools.partial(self._late_reviews.fail, review),
        )

    async def _ask(self, phase: Phase, call: OutgoingCall) -> ReplicaAnswer:
        call_unary, streamed = self._unary_calls[phase], self._streamed.get(phase)
        if streamed is not None:
            return await streamed.ask(call, call_unary)
        return ReplicaAnswer(await call_alone(call_unary, call), self.endpoint)

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
    ) -> tuple[_MessageT, str, int]:
        """Return the answer, the endpoint that gave it, and how many bytes it had."""
        begun, code = time.perf_counter(), CODE_NAMES[grpc.StatusCode.INTERNAL]
        try:
            raw, endpoint = await call
            if len(raw) > FEW_FIELDS_BYTES:
                check_fields(raw, message)
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
        return answer, endpoint or self.endpoint, len(raw)

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
