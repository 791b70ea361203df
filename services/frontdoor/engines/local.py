"""The local engine: the whole chain in one process, for files and tests."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from frontdoor.chain.assembly import ChainParts, assemble
from frontdoor.engines.engine import ChainSources, open_clients
from frontdoor.transports.in_process import InProcessTransport
from frontdoor.webhooks.clients import WebhookTransports
from mutator.host import MutatorHost
from pratique.admission.provisioning import provisions_namespaces
from pratique.configuration.loading import Configurations
from pratique.controllers.quota.ledger_urls import with_ledger_url
from validator.host import ValidatorHost

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frontdoor.chain.decisions import Decision
    from pratique.admission.calls import Deadline
    from pratique.admission.controllers import Phase
    from pratique.admission.reviews import Review
    from pratique.cluster.store import Cluster
    from pratique.configuration.settings import ChainSettings


@dataclasses.dataclass(frozen=True, slots=True)
class LocalSources:
    """What the settings of a chain name, read once for several engines, which share nothing else."""

    chain: ChainSources
    configurations: Configurations

    @classmethod
    def read(cls, settings: ChainSettings) -> LocalSources:
        """Read all configuration.

        Raises:
            ConfigurationError: the configuration cannot be used.
        """
        # what is only tried out is not charged to anybody: quotas are counted in memory, whatever the settings say
        return cls(ChainSources.read(with_ledger_url(settings, "")), _configurations(settings))


def _configurations(settings: ChainSettings) -> Configurations:
    if not settings.config:
        return Configurations()
    from pratique.configuration.loading import load_configurations  # noqa: PLC0415 - what is not there is not checked

    return load_configurations(settings.config)


class LocalEngine:
    """Decides reviews without any service."""

    def __init__(self, settings: ChainSettings, store: Cluster, read: LocalSources | None = None) -> None:
        """Read all configuration, unless it has been read, and make the chain.

        Raises:
            ConfigurationError: the configuration cannot be used.
        """
        self.cluster = store
        loaded = read or LocalSources.read(settings)
        sources, configurations = loaded.chain, loaded.configurations
        hosted = sources.configure(sources.selected)
        for one in hosted:
            one.handlers.use_configurations(configurations)
        making = provisions_namespaces(sources.selected)
        self._hosts = InProcessTransport(
            MutatorHost(hosted, store, provisions=making), ValidatorHost(hosted, store, provisions=making)
        )
        self._webhooks = WebhookTransports(open_clients(store), sources.credentials())
        self.parts = ChainParts(
            controllers=sources.selected,
            configurations=configurations,
            mutator=self._hosts,
            validator=self._hosts,
            reach=self._webhooks.reach,
            plugin_configurations=sources.plugin_configurations,
            first_denial_only=settings.first_denial_only,
        )
        self._chain = assemble(self.parts)
        self._sources = sources

    def idle(self) -> Iterator[str]:
        """Tell of what is configured and can do nothing, whatever the cluster, a line each."""
        return self._sources.idle(self.parts.configurations, self.cluster, only_certain=True)

    async def decide(
        self, review: Review, phases: frozenset[Phase], deadline: Deadline, *, explain: bool = False
    ) -> Decision:
        """Run a review through the phases asked for."""
        return await self._chain.decide(review, phases, deadline, explain=explain)

    async def on_admitted(self, review: Review) -> None:
        """Tell the controllers of a request that was admitted and done, before what it did can be looked up."""
        for one in self._hosts.validator.hosted:
            await one.handlers.on_admitted(review)

    async def unready(self) -> Sequence[str]:
        """Nothing is waited for."""
        return ()

    async def close(self) -> None:
        """Let go of connections and controllers."""
        await self._webhooks.close()
        await self._hosts.close()
