"""The validator over gRPC."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from pratique.admission.v1 import validator_service_pb2 as pb
from pratique.definitions import Phase
from pratique.rpc.deadlines import answering_deadline
from pratique.rpc.descriptions import catalogue_service
from pratique.rpc.handlers import unary
from pratique.rpc.messages import review_and_calls, validate_response
from pratique.rpc.repetitions import is_repeated
from pratique.rpc.servers import Service

if TYPE_CHECKING:
    from grpc.aio import ServicerContext

    from validator.hosts import ValidatorHost


def services(host: ValidatorHost) -> tuple[Service, ...]:
    """What a server offers that asks ``host``."""

    async def validate(
        request: pb.ValidateRequest, context: ServicerContext[Any, Any]
    ) -> pb.ValidateResponse:
        review, calls = review_and_calls(request, host.cluster)
        if is_repeated(context):
            review = dataclasses.replace(review, repeats=True)
        return validate_response(await host.validate(review, calls, answering_deadline(context)))

    return (
        Service("pratique.admission.v1.ValidatorService", {"Validate": unary(pb.ValidateRequest, validate)}),
        catalogue_service(host.hosted, Phase.VALIDATE),
    )
