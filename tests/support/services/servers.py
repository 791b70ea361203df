"""Real servers for tests: a mutator or a validator on a free port of the loopback, and a channel to it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc
from google.protobuf.message import Message

import pratique_mutator.service
import pratique_validator.service
from pratique.admission.results import Outcome
from pratique.admission.reviews import Call, Review
from pratique.admission.v1 import mutator_service_pb2, validator_service_pb2
from pratique.cluster.files import load_cluster
from pratique.cluster.store import ANY_NAMESPACE, Cluster
from pratique.configuration.admission_configuration import load_plugin_configurations
from pratique.configuration.input_digests import (
    InputDigests,
    RecentInputs,
    chain_digest,
    cluster_digest,
    configuration_digest,
)
from pratique.configuration.loading import load_configurations
from pratique.configuration.settings import ChainSettings
from pratique.hosting.catalogue import HostedController, load_catalogue
from pratique.hosting.running import MutatorHost, ValidatorHost
from pratique.rpc import messages
from pratique.rpc.servers import RpcServer, RpcService, ServerSettings

LIMITS = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))
"""No limits: the server's are the ones that are tested."""


def digests_of(chain: ChainSettings) -> InputDigests:
    """What a service with these settings decides by."""
    catalogue = load_catalogue()
    return InputDigests.of(
        chain_digest(catalogue.select(chain), load_plugin_configurations(chain)),
        configuration_digest(load_configurations(chain.config)),
        cluster_digest(load_cluster(chain.cluster)),
    )


CONTROLLER = "AlwaysPullImages"
"""What chains of tests ask services for, in both phases, where they ask for one controller."""
DIGESTS = digests_of(ChainSettings(admission_control=(CONTROLLER,)))
"""What services of tests decide by where nothing else is said."""


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """Either of the two services, so that one test can be of both."""

    name: str
    method: str
    """Its method's full name, as in the path of a call."""
    host: Callable[[Sequence[HostedController], Cluster], Any]
    offered: Callable[[Any], tuple[RpcService, ...]]
    request: Callable[[Review, Sequence[Call]], Any]
    response: type[Message]
    outcomes: Callable[[Any, Sequence[Call]], list[Outcome]]

    def services(
        self, hosted: Sequence[HostedController], digests: InputDigests = DIGESTS
    ) -> tuple[RpcService, ...]:
        """What a server offers that hosts these, and decides by the inputs of those digests."""
        return self.offered(RecentInputs(digests, self.host(hosted, ANY_NAMESPACE)))

    def __str__(self) -> str:
        """Its name, as the id of a test."""
        return self.name

    async def send(
        self, channel: grpc.aio.Channel, request: Message | bytes, seconds: float | None = 30
    ) -> bytes:
        """Call the method as any client would, with bytes."""
        raw = request if isinstance(request, bytes) else request.SerializeToString()
        answer: bytes = await channel.unary_unary(self.method, None, None)(raw, timeout=seconds)
        return answer

    async def ask(
        self, channel: grpc.aio.Channel, review: Review, calls: Sequence[Call], seconds: float | None = 30
    ) -> list[Outcome]:
        """Call the method as the front door does."""
        answer = await self.send(channel, self.request(review, calls), seconds)
        return self.outcomes(self.response.FromString(answer), calls)


MUTATOR = Kind(
    "mutator",
    "/pratique.admission.v1.MutatorService/Mutate",
    MutatorHost,
    pratique_mutator.service.MUTATOR.services,
    messages.mutate_request,
    mutator_service_pb2.MutateResponse,
    messages.outcomes_from_mutate,
)
VALIDATOR = Kind(
    "validator",
    "/pratique.admission.v1.ValidatorService/Validate",
    ValidatorHost,
    pratique_validator.service.VALIDATOR.services,
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
