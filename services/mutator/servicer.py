"""The mutator over gRPC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pratique.admission.v1 import mutator_service_pb2 as pb
from pratique.definitions import Phase
from pratique.large_texts.readers import Reader
from pratique.rpc.deadlines import answering_deadline
from pratique.rpc.descriptions import catalogue_service
from pratique.rpc.handlers import unary
from pratique.rpc.inputs import demanded
from pratique.rpc.messages import mutate_response, read_request
from pratique.rpc.servers import Service
from pratique.rpc.stream_methods import METHODS

if TYPE_CHECKING:
    from grpc.aio import ServicerContext

    from mutator.hosts import MutatorHost
    from pratique.held_inputs import HeldInputs
    from pratique.rpc.handlers import Incoming
    from pratique.rpc.service_metrics import ServiceMetrics


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
