"""The mutator over gRPC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pratique.admission.v1 import mutator_service_pb2 as pb
from pratique.definitions import Phase
from pratique.rpc.deadlines import answering_deadline
from pratique.rpc.descriptions import catalogue_service
from pratique.rpc.handlers import unary
from pratique.rpc.messages import mutate_response, review_and_calls
from pratique.rpc.servers import Service

if TYPE_CHECKING:
    from grpc.aio import ServicerContext

    from mutator.hosts import MutatorHost


def services(host: MutatorHost) -> tuple[Service, ...]:
    """What a server offers that asks ``host``."""

    async def mutate(request: pb.MutateRequest, context: ServicerContext[Any, Any]) -> pb.MutateResponse:
        review, calls = review_and_calls(request, host.cluster)
        return mutate_response(await host.mutate(review, calls, answering_deadline(context)))

    return (
        Service("pratique.admission.v1.MutatorService", {"Mutate": unary(pb.MutateRequest, mutate)}),
        catalogue_service(host.hosted, Phase.MUTATE),
    )
