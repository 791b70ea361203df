"""Real servers for tests: a mutator or a validator on a free port of the loopback, and a channel to it."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any

import grpc

import mutator.servicer
import validator.servicer
from mutator.hosts import MutatorHost
from pratique.admission.v1 import mutator_service_pb2, validator_service_pb2
from pratique.clusters import ANY_NAMESPACE
from pratique.rpc import messages
from pratique.rpc.servers import RpcServer
from pratique.rpc.settings import ServerSettings
from validator.hosts import ValidatorHost

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from google.protobuf.message import Message

    from pratique.calls import Call
    from pratique.hosted_controllers import HostedController
    from pratique.outcomes import Outcome
    from pratique.reviews import Review
    from pratique.rpc.servers import Service

LIMITS = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))
"""No limits: the server's are the ones that are tested."""


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """Either of the two services, so that one test can be of both."""

    name: str
    method: str
    """Its method's full name, as in the path of a call."""
    services: Callable[[Sequence[HostedController]], tuple[Service, ...]]
    request: Callable[[Review, Sequence[Call]], Any]
    response: type[Message]
    outcomes: Callable[[Any, Sequence[Call]], list[Outcome]]

    def __str__(self) -> str:
        """Its name, as the id of a test."""
        return self.name

    async def send(
        self, channel: grpc.aio.Channel, request: Message | bytes, seconds: float | None = 10
    ) -> bytes:
        """Call the method as any client would, with bytes."""
        raw = request if isinstance(request, bytes) else request.SerializeToString()
        answer: bytes = await channel.unary_unary(self.method, None, None)(raw, timeout=seconds)
        return answer

    async def ask(
        self, channel: grpc.aio.Channel, review: Review, calls: Sequence[Call], seconds: float | None = 10
    ) -> list[Outcome]:
        """Call the method as the front door does."""
        answer = await self.send(channel, self.request(review, calls), seconds)
        return self.outcomes(self.response.FromString(answer), calls)


MUTATOR = Kind(
    "mutator",
    "/pratique.admission.v1.MutatorService/Mutate",
    lambda hosted: mutator.servicer.services(MutatorHost(hosted, ANY_NAMESPACE)),
    messages.mutate_request,
    mutator_service_pb2.MutateResponse,
    messages.outcomes_from_mutate,
)
VALIDATOR = Kind(
    "validator",
    "/pratique.admission.v1.ValidatorService/Validate",
    lambda hosted: validator.servicer.services(ValidatorHost(hosted, ANY_NAMESPACE)),
    messages.validate_request,
    validator_service_pb2.ValidateResponse,
    messages.outcomes_from_validate,
)
KINDS = (MUTATOR, VALIDATOR)


@contextlib.asynccontextmanager
async def serving(kind: Kind, *hosted: HostedController, **settings: Any) -> AsyncIterator[grpc.aio.Channel]:
    """Serve ``hosted`` by a real server, and give a channel to it."""
    server = RpcServer(kind.services(hosted), ServerSettings(drain_seconds=0, **settings))
    address = await server.start()
    try:
        async with grpc.aio.insecure_channel(address, options=LIMITS) as channel:
            yield channel
    finally:
        await server.stop()
