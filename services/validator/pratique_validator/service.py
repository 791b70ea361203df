"""The validator: runs validating controllers side by side, behind gRPC."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from pratique.admission.controllers import Phase
from pratique.admission.v1 import validator_service_pb2 as pb
from pratique.configuration.input_digests import RecentInputs
from pratique.configuration.settings import ChainSettings
from pratique.hosting.hosts import ValidatorHost
from pratique.hosting.services import host_chain
from pratique.processes.large_texts import LargeTextReader
from pratique.rpc.descriptions import catalogue_service
from pratique.rpc.handlers import (
    IncomingRequest,
    controllers_deadline,
    held_or_abort,
    is_retry,
    unary_handler,
)
from pratique.rpc.messages import read_request, validate_response
from pratique.rpc.metrics import ServiceMetrics
from pratique.rpc.servers import RpcService, ServerSettings
from pratique.rpc.service_process import run_process, run_server
from pratique.rpc.streams import STREAMED_METHODS

if TYPE_CHECKING:
    from grpc.aio import ServicerContext


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ValidatorSettings(ServerSettings):
    """Where the validator listens, what it hosts, and how it ends."""

    port: int = 9002
    """Port to listen on; 0 picks a free one."""
    chain: ChainSettings = dataclasses.field(default_factory=ChainSettings)
    """What is in the chain and what it knows."""


def services(
    held: RecentInputs[ValidatorHost], metrics: ServiceMetrics | None = None
) -> tuple[RpcService, ...]:
    """What a server offers that asks one of the hosts that are ``held``, and what came of it among ``metrics``."""
    reader = LargeTextReader()

    async def validate(
        request: IncomingRequest[pb.ValidateRequest], context: ServicerContext[Any, Any]
    ) -> pb.ValidateResponse:
        digest, host = await held_or_abort(held, request.message.digest, context)
        review, calls = await read_request(request, host.cluster, reader)
        if is_retry(context):
            review = dataclasses.replace(review, is_retry=True)
        outcomes = await host.validate(review, calls, controllers_deadline(context))
        if metrics is not None:
            metrics.observe(outcomes)
        return validate_response(outcomes, review.uid, digest)

    return (
        RpcService(
            "pratique.admission.v1.ValidatorService",
            {"Validate": unary_handler(pb.ValidateRequest, validate)},
            STREAMED_METHODS[Phase.VALIDATE],
            held,
        ),
        catalogue_service(held.current.hosted, Phase.VALIDATE, held),
    )


async def serve(settings: ValidatorSettings) -> None:
    """Serve until SIGTERM or SIGINT, finish what is in flight, and close the controllers.

    Raises:
        ConfigurationError: a file or flag cannot be used, or the address cannot be listened on.
    """
    async with host_chain(settings.chain, Phase.VALIDATE, ValidatorHost, settings.isolation) as hosted:
        metrics = ServiceMetrics.of(settings, Phase.VALIDATE, hosted, hosted.held.current.runners)
        await run_server("validator", services(hosted.held, metrics), settings, metrics)


def run(settings: ValidatorSettings) -> None:
    """Be the validator's process: log, and serve.

    Raises:
        ConfigurationError: as ``serve``.
    """
    run_process("validator", serve(settings))
