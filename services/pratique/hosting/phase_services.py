"""The gRPC service of one phase: its settings, its methods and its process, for the mutator and the validator."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic

import msgspec
from google.protobuf.message import Message
from grpc.aio import ServicerContext

from pratique.admission.controllers import Phase, QuotaAmount
from pratique.admission.results import Outcome
from pratique.admission.reviews import Call, Deadline, Review
from pratique.configuration.input_digests import RecentInputs
from pratique.configuration.settings import ChainSettings
from pratique.hosting.running import ControllerMetrics
from pratique.hosting.services import HostedChain, HostFactory, HostT, host_chain
from pratique.processes.large_texts import LargeTextReader
from pratique.processes.review_threads import work_on_review
from pratique.rpc.check_digests import CheckDigests
from pratique.rpc.descriptions import catalogue_service
from pratique.rpc.handlers import (
    IncomingRequest,
    controllers_deadline,
    held_or_abort,
    is_retry,
    unary_handler,
)
from pratique.rpc.messages import read_request
from pratique.rpc.metrics import ServiceMetrics
from pratique.rpc.servers import RpcService, ServerSettings
from pratique.rpc.service_process import run_process, run_server
from pratique.rpc.streams import STREAMED_METHODS
from pratique.telemetry.metrics import MergedCollectors, ReloadCollector


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PhaseServiceSettings(ServerSettings):
    """Where the service listens, what it hosts, and how it stops."""

    chain: ChainSettings = dataclasses.field(default_factory=ChainSettings)
    """The chain, its configuration and its cluster."""


class PhaseService(msgspec.Struct, Generic[HostT], frozen=True):
    """The service that runs one phase of the chain."""

    name: str
    phase: Phase
    host_of: HostFactory[HostT]
    """Creates the hosts."""
    run_controllers: Callable[[HostT, Review, Sequence[Call], Deadline | None], Awaitable[list[Outcome]]]
    """Runs controllers on a host."""
    request_type: type[Any]
    """The method's request, a protobuf message."""
    response_of: Callable[[Sequence[Outcome], str, str, str], Message]
    """Creates the method's response from outcomes, the review's uid, the digest of the inputs, and the rules by which
    the documents were checked for the caller."""

    def services(
        self,
        held: RecentInputs[HostT],
        metrics: ServiceMetrics | None = None,
        digests: CheckDigests | None = None,
    ) -> tuple[RpcService, ...]:
        """Return the gRPC services that a server offers: the phase's own, and the catalogue.

        Args:
            held: The hosts, by the digest of their inputs.
            metrics: Count the outcomes; None counts nothing.
            digests: Verify which documents a caller has checked; None checks all of them here.
        """
        reader = LargeTextReader()

        async def respond(request: IncomingRequest[Any], context: ServicerContext[Any, Any]) -> Message:
            digest, host = await held_or_abort(held, request.message.digest, context)
            review, calls, rules = await read_request(request, host.cluster, reader, digests)
            if is_retry(context):
                review = msgspec.structs.replace(review, is_retry=True)
            outcomes = await self.run_controllers(host, review, calls, controllers_deadline(context))
            if metrics is not None:
                metrics.observe(outcomes)
            return await work_on_review(
                review.received_values, self.response_of, outcomes, review.uid, digest, rules
            )

        stream = STREAMED_METHODS[self.phase]
        _, service, method = stream.path.split("/")
        host = held.current
        controllers = [hosted.controller for hosted in host.hosted if hosted.controller.name in host.runners]

        def quota_usage() -> dict[tuple[str, ...], QuotaAmount]:
            usages = [hosted.handlers.quota_usage() for hosted in host.hosted]
            return {quota: amount for usage in usages for quota, amount in usage.items()}

        return (
            RpcService(service, {method: unary_handler(self.request_type, respond)}, stream, held),
            catalogue_service(controllers, self.phase, held, quota_usage),
        )

    async def serve(self, settings: PhaseServiceSettings) -> None:
        """Serve until SIGTERM or SIGINT, finish the calls in flight, and close the controllers.

        Raises:
            ConfigurationError: a file or flag cannot be used, or the server cannot listen on the address.
        """
        digests = CheckDigests.of(settings.checks_key_file, authenticated=settings.client_ca_file is not None)
        async with host_chain(settings.chain, self.phase, self.host_of, settings.isolation) as chain:
            metrics = self.metrics_of(settings, chain)
            await run_server(self.name, self.services(chain.held, metrics, digests), settings, metrics)

    def metrics_of(self, settings: ServerSettings, chain: HostedChain[HostT]) -> ServiceMetrics | None:
        """Return the metrics of a service that hosts ``chain``; None if the settings have no port for them."""
        if settings.metrics_port is None:
            return None
        collectors = [collector for hosted in chain.controllers for collector in hosted.handlers.collectors]
        return ServiceMetrics(
            ControllerMetrics(self.phase, chain.held.current.runners),
            (
                MergedCollectors(collectors),
                ReloadCollector(chain.reloads),
                chain.held,
                *(() if chain.live is None else (chain.live,)),
            ),
        )

    def run(self, settings: PhaseServiceSettings) -> None:
        """Run the service as this process.

        Raises:
            ConfigurationError: as for ``serve``.
        """
        run_process(self.name, self.serve(settings))
