"""The mutator: runs mutating controllers one after another, behind gRPC."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from mutator.host import MutatorHost
from pratique.admission.controllers import Phase
from pratique.admission.v1 import mutator_service_pb2 as pb
from pratique.configuration.settings import ChainSettings
from pratique.hosting.services import hosting
from pratique.processes.large_texts import Reader
from pratique.rpc.descriptions import catalogue_service
from pratique.rpc.handlers import answering_deadline, unary
from pratique.rpc.inputs import demanded
from pratique.rpc.lifetimes import be_process, live
from pratique.rpc.messages import mutate_response, read_request
from pratique.rpc.servers import ServerSettings, Service
from pratique.rpc.streams import METHODS
from pratique.rpc.telemetry import ServiceMetrics

if TYPE_CHECKING:
    from grpc.aio import ServicerContext

    from pratique.configuration.inputs import HeldInputs
    from pratique.rpc.handlers import Incoming


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MutatorSettings(ServerSettings):
    """Where the mutator listens, what it hosts, and how it ends."""

    port: int = 9001
    """Port to listen on; 0 picks a free one."""
    chain: ChainSettings = dataclasses.field(default_factory=ChainSettings)
    """What is in the chain and what it knows."""


def services(held: HeldInputs[MutatorHost], metrics: ServiceMetrics | None = None) -> tuple[Service, ...]:
    """What a server offers that asks one of the hosts that are ``held``, and what came of it among ``metrics``."""
    reader = Reader()

    async def mutate(
        request: Incoming[pb.MutateRequest], context: ServicerContext[Any, Any]
    ) -> pb.MutateResponse:
        digest, host = await demanded(held, request.message.digest, context)
        review, calls = await read_request(request, host.cluster, reader)
        outcomes = await host.mutate(review, calls, answering_deadline(context))
        if metrics is not None:
            metrics.observe(outcomes)
        return mutate_response(outcomes, review.uid, digest)

    return (
        Service(
            "pratique.admission.v1.MutatorService",
            {"Mutate": unary(pb.MutateRequest, mutate)},
            METHODS[Phase.MUTATE],
            held,
        ),
        catalogue_service(held.current.hosted, Phase.MUTATE, held),
    )


async def serve(settings: MutatorSettings) -> None:
    """Serve until SIGTERM or SIGINT, finish what is in flight, and close the controllers.

    Raises:
        ConfigurationError: a file or flag cannot be used, or the address cannot be listened on.
    """
    async with hosting(settings.chain, Phase.MUTATE, MutatorHost, settings.isolation) as hosted:
        metrics = ServiceMetrics.of(settings, Phase.MUTATE, hosted, hosted.held.current.runners)
        await live("mutator", services(hosted.held, metrics), settings, metrics)


def run(settings: MutatorSettings) -> None:
    """Be the mutator's process: log, and serve.

    Raises:
        ConfigurationError: as ``serve``.
    """
    be_process("mutator", serve(settings))
