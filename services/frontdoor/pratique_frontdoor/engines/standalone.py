"""The standalone engine: a front door's whole chain in its own process, for one small machine.

It hosts both phases as a mutator and a validator would, with the same reloading and isolation, and calls them without
gRPC.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic

import msgspec

from pratique.admission.controllers import Phase
from pratique.admission.results import Outcome
from pratique.admission.reviews import Call, Deadline, Review
from pratique.apimachinery.errors import CallError
from pratique.configuration.input_digests import InputDigests, RecentInputs
from pratique.configuration.settings import Isolation
from pratique.hosting.catalogue import load_catalogue
from pratique.hosting.cluster_roles import looked_up_by_front_doors
from pratique.hosting.running import ControllerMetrics, MutatorHost, ValidatorHost
from pratique.hosting.services import HostedChain, HostT, host_chain, open_configurations, open_live_cluster
from pratique.telemetry.metrics import MergedCollectors
from pratique_frontdoor.engines.remote import RemoteEngine, Service
from pratique_frontdoor.settings import FrontDoorSettings

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from pratique.cluster.live import LiveCluster
    from pratique.configuration.loading import Configurations
    from pratique.telemetry.reloading_files import Reloaded


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StandaloneSettings(FrontDoorSettings):
    """Where the front door listens, its limits, and how it isolates third-party controllers."""

    isolation: Isolation = Isolation.PROCESS
    """Where controllers of other packages run: each in its own process, or in threads of this one."""


class HostTransport(msgspec.Struct, Generic[HostT], frozen=True):
    """Calls the hosts of one phase in this process."""

    chain: HostedChain[HostT]
    run: Callable[[HostT, Review, Sequence[Call], Deadline | None], Awaitable[Sequence[Outcome]]]
    metrics: ControllerMetrics
    endpoint: str = "in-process"

    def agrees(self, digest: str) -> bool:
        """Tell whether the hosts decide by the inputs with this digest."""
        return self.chain.held.find(digest) is not None

    async def mutate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Run mutating controllers one after another."""
        return await self._run(review, calls, deadline)

    async def validate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Run validating controllers concurrently."""
        return await self._run(review, calls, deadline)

    async def _run(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        host = self.chain.held.get(review.digest)
        if host is None:
            raise CallError("the controllers decide by other inputs than this front door")
        outcomes = await self.run(host, review, calls, deadline)
        asyncio.get_running_loop().call_soon(self.metrics.observe, outcomes)
        return outcomes

    async def renew(self) -> None:
        """Do nothing: there is no connection to renew."""

    async def close(self) -> None:
        """Do nothing: the engine closes the controllers."""


class LocalService(msgspec.Struct, Generic[HostT], frozen=True):
    """One phase of the chain, as the front door sees a mutator or a validator."""

    name: str
    transport: HostTransport[HostT]

    def require_inputs(self, held: RecentInputs[Any]) -> None:
        """Do nothing: every call names its inputs, and there is no other replica to call."""

    def differing_replicas(self, digests: InputDigests) -> list[str]:
        """Return the inputs that have been reloaded here and not yet in the front door, or the other way round."""
        if self.transport.agrees(digests.whole):
            return []
        differences = ", ".join(digests.differences(self.transport.chain.held.digests))
        return [f"{self.name} in this process decides by another {differences or 'set of inputs'}"]

    def excluded(self) -> list[str]:
        """Return no replicas: there is only one."""
        return []

    async def unready(self, digests: InputDigests) -> str:
        """Return why it cannot decide by these inputs; empty if it can."""
        return "; ".join(self.differing_replicas(digests))


class StandaloneEngine(RemoteEngine):
    """Decides reviews in the front door's own process."""

    def __init__(
        self,
        settings: StandaloneSettings,
        services: tuple[Service, Service],
        collector: Collector,
        live: LiveCluster | None = None,
        configurations: Reloaded[Configurations] | None = None,
    ) -> None:
        """Build the chain over local ``services``, whose metrics are ``collector``.

        Raises:
            ConfigurationError: the configuration cannot be used.
        """
        super().__init__(settings, services, live, configurations)
        self.collectors = (*self.collectors, collector)
        self.hosting = contextlib.AsyncExitStack()
        """What closes the controllers."""

    async def close(self) -> None:
        """Close connections and controllers."""
        await super().close()
        await self.hosting.aclose()


async def open_standalone(settings: StandaloneSettings) -> StandaloneEngine:
    """Load the chain, and host its controllers in this process.

    Raises:
        ConfigurationError: the configuration cannot be used.
    """
    async with contextlib.AsyncExitStack() as stack:
        selected = load_catalogue().select(settings.chain)
        names = {name for controller in selected for name in controller.looks_up}
        live = await open_live_cluster(settings.chain, names | looked_up_by_front_doors(selected))
        if live is not None:
            stack.push_async_callback(live.close)
        mutators = await stack.enter_async_context(
            host_chain(settings.chain, Phase.MUTATE, MutatorHost, settings.isolation, live)
        )
        validators = await stack.enter_async_context(
            host_chain(settings.chain, Phase.VALIDATE, ValidatorHost, settings.isolation, live)
        )
        mutator = _local_service("mutator", Phase.MUTATE, mutators, MutatorHost.mutate)
        validator = _local_service("validator", Phase.VALIDATE, validators, ValidatorHost.validate)
        # By name: where both phases have a controller, two collectors of its metrics would make each series twice.
        hosted = {
            controller.controller.name: controller
            for controller in (*mutators.controllers, *validators.controllers)
        }
        collector = MergedCollectors(
            [
                mutator.transport.metrics,
                validator.transport.metrics,
                *(
                    collector
                    for controller in hosted.values()
                    for collector in controller.handlers.collectors
                ),
            ]
        )
        configurations = await open_configurations(settings.chain, live)
        engine = StandaloneEngine(settings, (mutator, validator), collector, live, configurations)
        engine.hosting = stack.pop_all()
        return engine


def _local_service(
    name: str,
    phase: Phase,
    chain: HostedChain[HostT],
    run: Callable[[HostT, Review, Sequence[Call], Deadline | None], Awaitable[Sequence[Outcome]]],
) -> LocalService[HostT]:
    metrics = ControllerMetrics(phase, chain.held.current.runners)
    return LocalService(name, HostTransport(chain, run, metrics))
