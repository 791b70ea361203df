"""The validator: runs validating controllers side by side, behind gRPC."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from pratique.admission.controllers import Phase
from pratique.admission.v1 import validator_service_pb2 as pb
from pratique.configuration.settings import ChainSettings
from pratique.hosting.services import hosting
from pratique.processes.large_texts import Reader
from pratique.rpc.descriptions import catalogue_service
from pratique.rpc.handlers import answering_deadline, is_repeated, unary
from pratique.rpc.inputs import demanded
from pratique.rpc.lifetimes import be_process, live
from pratique.rpc.messages import read_request, validate_response
from pratique.rpc.servers import ServerSettings, Service
from pratique.rpc.streams import METHODS
from pratique.rpc.telemetry import ServiceMetrics
from validator.host import ValidatorHost

if TYPE_CHECKING:
    from grpc.aio import ServicerContext

    from pratique.configuration.inputs import HeldInputs
    from pratique.rpc.handlers import Incoming


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ValidatorSettings(ServerSettings):
    """Where the validator listens, what it hosts, and how it ends."""

    port: int = 9002
    """Port to listen on; 0 picks a free one."""
    chain: ChainSettings = dataclasses.field(default_factory=ChainSettings)
    """What is in the chain and what it knows."""


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


async def serve(settings: ValidatorSettings) -> None:
    """Serve until SIGTERM or SIGINT, finish what is in flight, and close the controllers.

    Raises:
        ConfigurationError: a file or flag cannot be used, or the address cannot be listened on.
    """
    async with hosting(settings.chain, Phase.VALIDATE, ValidatorHost, settings.isolation) as hosted:
        metrics = ServiceMetrics.of(settings, Phase.VALIDATE, hosted, hosted.held.current.runners)
        await live("validator", services(hosted.held, metrics), settings, metrics)


def run(settings: ValidatorSettings) -> None:
    """Be the validator's process: log, and serve.

    Raises:
        ConfigurationError: as ``serve``.
    """
    be_process("validator", serve(settings))
