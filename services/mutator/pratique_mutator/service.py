"""The mutator: runs mutating controllers one after another, behind gRPC."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from pratique.admission.controllers import Phase
from pratique.admission.v1 import mutator_service_pb2 as pb
from pratique.configuration.input_digests import RecentInputs
from pratique.configuration.settings import ChainSettings
from pratique.hosting.hosts import MutatorHost
from pratique.hosting.services import host_chain
from pratique.processes.large_texts import LargeTextReader
from pratique.rpc.descriptions import catalogue_service
from pratique.rpc.handlers import IncomingRequest, controllers_deadline, held_or_abort, unary_handler
from pratique.rpc.messages import mutate_response, read_request
from pratique.rpc.metrics import ServiceMetrics
from pratique.rpc.servers import RpcService, ServerSettings
from pratique.rpc.service_process import run_process, run_server
from pratique.rpc.streams import STREAMED_METHODS

if TYPE_CHECKING:
    from grpc.aio import ServicerContext


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MutatorSettings(ServerSettings):
    """Where the mutator listens, what it hosts, and how it ends."""

    port: int = 9001
    """Port to listen on; 0 picks a free one."""
    chain: ChainSettings = dataclasses.field(default_factory=ChainSettings)
    """What is in the chain and what it knows."""


def services(
    held: RecentInputs[MutatorHost], metrics: ServiceMetrics | None = None
) -> tuple[RpcService, ...]:
    """What a server offers that asks one of the hosts that are ``held``, and what came of it among ``metrics``."""
    reader = LargeTextReader()

    async def mutate(
        request: IncomingRequest[pb.MutateRequest], context: ServicerContext[Any, Any]
    ) -> pb.MutateResponse:
        digest, host = await held_or_abort(held, request.message.digest, context)
        review, calls = await read_request(request, host.cluster, reader)
        outcomes = await host.mutate(review, calls, controllers_deadline(context))
        if metrics is not None:
            metrics.observe(outcomes)
        return mutate_response(outcomes, review.uid, digest)

    return (
        RpcService(
            "pratique.admission.v1.MutatorService",
            {"Mutate": unary_handler(pb.MutateRequest, mutate)},
            STREAMED_METHODS[Phase.MUTATE],
            held,
        ),
        catalogue_service(held.current.hosted, Phase.MUTATE, held),
    )


async def serve(settings: MutatorSettings) -> None:
    """Serve until SIGTERM or SIGINT, finish what is in flight, and close the controllers.

    Raises:
        ConfigurationError: a file or flag cannot be used, or the address cannot be listened on.
    """
    async with host_chain(settings.chain, Phase.MUTATE, MutatorHost, settings.isolation) as hosted:
        metrics = ServiceMetrics.of(settings, Phase.MUTATE, hosted, hosted.held.current.runners)
        await run_server("mutator", services(hosted.held, metrics), settings, metrics)


def run(settings: MutatorSettings) -> None:
    """Be the mutator's process: log, and serve.

    Raises:
        ConfigurationError: as ``serve``.
    """
    run_process("mutator", serve(settings))
