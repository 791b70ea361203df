"""The local engine: the whole chain in one process, for ``pratique review`` and tests.

Its transport asks the hosts of the mutator and the validator directly, without a network.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from pratique.admission.controllers import Phase
from pratique.admission.namespace_provisioning import provisions_namespaces
from pratique.admission.results import Outcome
from pratique.admission.reviews import Call, Deadline, Review
from pratique.apimachinery.names import name_of
from pratique.cluster.api_resources import CRD_GROUP, CRD_RESOURCE
from pratique.cluster.store import Cluster
from pratique.configuration.loading import Configurations
from pratique.configuration.settings import ChainSettings
from pratique.controllers.quota.ledger import with_ledger_url
from pratique.hosting.running import MutatorHost, ValidatorHost
from pratique.https.conversion_webhooks import HttpsConversionWebhooks, MayCall, conversion_settings
from pratique_frontdoor.chain.assembly import ChainParts, assemble
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.engines.engine import ChainSources, open_clients
from pratique_frontdoor.webhooks.clients import WebhookTransports


class InProcessTransport(msgspec.Struct, frozen=True):
    """Calls hosts in this process."""

    mutator: MutatorHost
    validator: ValidatorHost
    endpoint: str = "in-process"

    async def mutate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Run mutating controllers one after another."""
        return await self.mutator.mutate(review, calls, deadline)

    async def validate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Run validating controllers concurrently."""
        return await self.validator.validate(review, calls, deadline)

    async def close(self) -> None:
        """Close the controllers; one that both hosts have is closed once."""
        hosted = {id(controller): controller for controller in (*self.mutator.hosted, *self.validator.hosted)}
        for controller in hosted.values():
            await controller.handlers.close()
        # a run of many chains, each for one case, would have hundreds of idle threads
        self.mutator.close_threads()
        self.validator.close_threads()


class LocalSources(msgspec.Struct, frozen=True):
    """The files of a chain's settings, read once for several engines, which share nothing else."""

    chain: ChainSources
    configurations: Configurations

    @classmethod
    def read(cls, settings: ChainSettings, chain: ChainSources | None = None) -> LocalSources:
        """Read all configuration, but what ``read_chain`` has read.

        Raises:
            ConfigurationError: the configuration cannot be used.
        """
        return cls(chain or read_chain(settings), _configurations(settings))


def read_chain(settings: ChainSettings) -> ChainSources:
    """Read the settings of controllers for a local run.

    It charges no quota: usage is counted in memory, whatever the settings say.

    Raises:
        ConfigurationError: a file is unusable, or a flag names an unknown controller.
    """
    return ChainSources.read(with_ledger_url(settings, ""))


def _configurations(settings: ChainSettings) -> Configurations:
    if not settings.config:
        return Configurations()
    from pratique.configuration.loading import load_configurations  # noqa: PLC0415 - only with --config

    return load_configurations(settings.config)


def _webhooks_of(store: Cluster) -> MayCall:
    """Allow the conversion webhooks of the definitions that a cluster has now.

    Definitions among the reviewed objects come into it later. What is reviewed must not decide whom this process calls.
    """
    allowed = {
        name_of(definition): conversion_settings(definition)
        for definition in store.list(CRD_GROUP, CRD_RESOURCE)
    }
    return lambda definition: allowed.get(name_of(definition)) == conversion_settings(definition)


class LocalEngine:
    """Decides reviews without services."""

    def __init__(
        self,
        settings: ChainSettings,
        store: Cluster,
        read: LocalSources | None = None,
        *,
        tells_places: bool = False,
    ) -> None:
        """Read all configuration, unless it has been read, and build the chain.

        With ``tells_places``, the failure of a policy in Python names its file and line, as no service does.

        Raises:
            ConfigurationError: the configuration cannot be used.
        """
        self.cluster = store
        loaded = read or LocalSources.read(settings)
        sources, configurations = loaded.chain, loaded.configurations
        hosted = sources.configure(sources.selected)
        for controller in hosted:
            controller.handlers.use_configurations(configurations)
        self._tracking = [controller.handlers for controller in hosted if controller.handlers.tracks_admitted]
        making = provisions_namespaces(sources.selected)
        self._hosts = InProcessTransport(
            MutatorHost(hosted, store, provisions=making, tells_places=tells_places),
            ValidatorHost(hosted, store, provisions=making, tells_places=tells_places),
        )
        clients = open_clients(store)
        self._webhooks = WebhookTransports(clients, sources.credentials())
        self._conversion_webhooks = (
            HttpsConversionWebhooks(clients, _webhooks_of(store))
            if settings.calls_conversion_webhooks
            else None
        )
        self.parts = ChainParts(
            controllers=sources.selected,
            configurations=configurations,
            mutator=self._hosts,
            validator=self._hosts,
            reach=self._webhooks.reach,
            plugin_configurations=sources.plugin_configurations,
            timeouts=sources.timeouts,
            first_denial_only=settings.first_denial_only,
        )
        self._chain = assemble(self.parts)
        self._sources = sources

    def without_effect(self) -> Iterator[str]:
        """Yield a line for everything that is configured and can have no effect, whatever the cluster."""
        return self._sources.without_effect(self.parts.configurations, self.cluster, only_certain=True)

    async def decide(
        self, review: Review, phases: frozenset[Phase], deadline: Deadline, *, explain: bool = False
    ) -> Decision:
        """Run a review through the requested phases."""
        review = review.with_conversion_webhooks(self._conversion_webhooks)
        return await self._chain.decide(review, phases, deadline, explain=explain)

    async def on_admitted(self, review: Review) -> None:
        """Notify the controllers of an admitted request that was executed, before its effects can be looked up."""
        for handlers in self._tracking:
            await handlers.on_admitted(review)

    async def unready(self) -> Sequence[str]:
        """Return no reasons: a local chain is always ready."""
        return ()

    async def close(self) -> None:
        """Close connections and controllers."""
        await self._webhooks.close()
        if self._conversion_webhooks is not None:
            await self._conversion_webhooks.close()
        await self._hosts.close()
