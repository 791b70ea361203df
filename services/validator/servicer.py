"""The validator over gRPC."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from pratique.admission.v1 import validator_service_pb2 as pb
from pratique.definitions import Phase
from pratique.large_texts.readers import Reader
from pratique.rpc.deadlines import answering_deadline
from pratique.rpc.descriptions import catalogue_service
from pratique.rpc.handlers import unary
from pratique.rpc.inputs import demanded
from pratique.rpc.messages import read_request, validate_response
from pratique.rpc.repetitions import is_repeated
from pratique.rpc.servers import Service
from pratique.rpc.stream_methods import METHODS

if TYPE_CHECKING:
    from grpc.aio import ServicerContext

    from pratique.held_inputs import HeldInputs
    from pratique.rpc.handlers import Incoming
    from pratique.rpc.service_metrics import ServiceMetrics
    from validator.hosts import ValidatorHost


def services(held: HeldInputs[ValidatorHost], metrics: ServiceMetrics | None = None) -> tuple[Service, ...]:
    """What a server offers that asks one of the hosts that are ``held``, and what came of it among ``metrics``."""
    reader = Reader()

    async def validate(
        request: Incoming[pb.ValidateRequest], context: ServicerContext[Any, Any]
    ) -> pb.ValidateResponse:
        digest, host = await demanded(held, request.message.digest, context)
        review, calls = await read_request(request, host.cluster, reader)
        if is_repeated(context):
            review = dataclasses.replace(review, repeats=True)
        outcomes = await host.validate(review, calls, answering_deadline(context))
        if metrics is not None:
            metrics.observe(outcomes)
        return validate_response(outcomes, review.uid, digest)

    return (
        Service(
            "pratique.admission.v1.ValidatorService",
            {"Validate": unary(pb.ValidateRequest, validate)},
            METHODS[Phase.VALIDATE],
            held,
        ),
        catalogue_service(held.current.hosted, Phase.VALIDATE, held),
    )
