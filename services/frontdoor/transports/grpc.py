"""The gRPC transport: the services of this suite, and anybody's that speaks ``proto/``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import grpc

from pratique.admission.v1 import mutator_service_pb2_grpc, validator_service_pb2_grpc
from pratique.errors import CallError, CallTimeoutError, UnreachableError
from pratique.rpc import messages

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from pratique.calls import Call, Deadline
    from pratique.outcomes import Outcome
    from pratique.reviews import Review

_MESSAGE_LIMIT = 16 * 1024 * 1024
"""Both ways. A legal review holds two objects of 3 MiB; gRPC's own limit of 4 MiB would refuse it."""

_BALANCED: dict[str, object] = {
    "loadBalancingConfig": [{"round_robin": {}}],
    "methodConfig": [
        {
            "name": [
                {"service": "pratique.admission.v1.MutatorService"},
                {"service": "pratique.admission.v1.ValidatorService"},
            ],
            # Both calls are pure by contract, so that a call whose replica died is safe to repeat on another; gRPC
            # tells the one that charges that it repeats.
            "retryPolicy": {
                "maxAttempts": 4,
                "initialBackoff": "0.02s",
                "maxBackoff": "0.2s",
                "backoffMultiplier": 3,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ],
}
"""gRPC service config: https://github.com/grpc/grpc/blob/master/doc/service_config.md."""

_HEALTH_CHECKED = _BALANCED | {"healthCheckConfig": {"serviceName": ""}}
"""A replica that drains says NOT_SERVING before it stops, and gets no more calls from then on."""

_OPTIONS = (
    ("grpc.max_send_message_length", _MESSAGE_LIMIT),
    ("grpc.max_receive_message_length", _MESSAGE_LIMIT),
    ("grpc.enable_retries", 1),
    # 100 ms to 2 s: a replica that comes back is to be found within a review's time, not within gRPC's two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # Half a minute: a black-holed connection is noticed; servers allow a ping every 20 s.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # A channel of its own for each transport, so that closing one does not share a broken subchannel.
    ("grpc.use_local_subchannel_pool", 1),
)


class GrpcTransport:
    """Asks a service over gRPC, spread over all addresses that its name resolves to."""

    def __init__(
        self,
        target: str,
        *,
        endpoint: str = "",
        credentials: grpc.ChannelCredentials | None = None,
        failure_prefix: str = "",
        health_checked: bool = True,
    ) -> None:
        """Open a channel to ``target`` (gRPC name syntax); it connects on first use.

        Args:
            target: The service, which may be many replicas.
            endpoint: What people are shown in place of the target.
            credentials: For TLS; None connects without.
            failure_prefix: Begins the text of every failed call.
            health_checked: The service answers ``grpc.health.v1``, which somebody else's need not.
        """
        config = json.dumps(_HEALTH_CHECKED if health_checked else _BALANCED)
        options = (*_OPTIONS, ("grpc.service_config", config))
        self.endpoint = endpoint or target
        self._failure_prefix = failure_prefix
        self._channel = (
            grpc.aio.insecure_channel(target, options=options)
            if credentials is None
            else grpc.aio.secure_channel(target, credentials, options=options)
        )
        self._mutate = mutator_service_pb2_grpc.MutatorServiceStub(self._channel).Mutate
        self._validate = validator_service_pb2_grpc.ValidatorServiceStub(self._channel).Validate

    @property
    def channel(self) -> grpc.aio.Channel:
        """The channel, for health checks."""
        return self._channel

    async def mutate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Run mutating halves one after another, in one call."""
        request = messages.mutate_request(review, calls)
        answer = await self._answer(self._mutate(request, timeout=deadline.remaining_seconds))
        return messages.outcomes_from_mutate(answer, calls)

    async def validate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Run validating halves side by side, in one call."""
        request = messages.validate_request(review, calls)
        answer = await self._answer(self._validate(request, timeout=deadline.remaining_seconds))
        return messages.outcomes_from_validate(answer, calls)

    async def close(self) -> None:
        """Close the channel; calls under way are cancelled."""
        await self._channel.close(grace=None)

    async def _answer(self, call: Awaitable[Any]) -> Any:  # the message type is the stub's
        try:
            return await call
        except grpc.aio.AioRpcError as error:
            raise _call_error(error, self._failure_prefix) from None


def _call_error(error: grpc.aio.AioRpcError, prefix: str) -> CallError:
    """Make a CallError in the words of Go's gRPC, without the details that the peer sent: they could hold anything."""
    match error.code():
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return CallTimeoutError(
                f"{prefix}rpc error: code = DeadlineExceeded desc = context deadline exceeded"
            )
        case grpc.StatusCode.UNAVAILABLE:
            return UnreachableError(
                f"{prefix}rpc error: code = Unavailable desc = the service cannot be reached"
            )
        case code:
            name = code.name.title().replace("_", "")
            return CallError(f"{prefix}rpc error: code = {name} desc = the service refused the call")
