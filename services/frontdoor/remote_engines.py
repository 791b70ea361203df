"""The remote engine: the chain of a front door, whose controllers run in the mutator and the validators."""

from __future__ import annotations

import asyncio
import functools
import logging
from typing import TYPE_CHECKING, Any

from frontdoor.chain.assemble import Parts, assemble
from frontdoor.chain_sources import ChainSources, open_clients
from frontdoor.hop_metrics import HopMetrics
from frontdoor.transports.hosting_services import HostingService
from frontdoor.transports.services_tls import ServicesTls
from frontdoor.webhook_transports import WebhookTransports
from pratique.cluster_files import load_cluster
from pratique.clusters import ReloadableCluster
from pratique.configurations.load import load_configurations
from pratique.definitions import Phase
from pratique.measures.match_conditions import ConditionMetrics
from pratique.measures.reloads import ReloadMetrics
from pratique.reloading import Reloaded, keep_reloading
from pratique.tls.kept import keep_fresh

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prometheus_client.registry import Collector

    from frontdoor.chain.chains import Chain
    from frontdoor.decisions import Decision
    from frontdoor.settings import FrontDoorSettings
    from pratique.calls import Deadline
    from pratique.configurations.all_configurations import Configurations
    from pratique.reviews import Review
    from pratique.tls.kept import Kept

_log = logging.getLogger(__name__)

_LONGEST_REVIEW_SECONDS = 30.0
"""After that long no review is under way that began with the configuration before: ``timeoutSeconds`` is at most 30."""


class RemoteEngine:
    """Decides reviews by asking the services.

    Configuration and cluster are read again when their files change. What cannot be used is told in the log and
    left aside; reviews go on with the last that could.
    """

    def __init__(self, settings: FrontDoorSettings) -> None:
        """Read all configuration and make the chain. Needs a running event loop.

        Raises:
            ConfigurationError: the configuration cannot be used.
        """
        chain = settings.chain
        self._first_denial_only = chain.first_denial_only
        self._sources = ChainSources.read(chain)
        read_cluster = functools.partial(load_cluster, chain.cluster)
        cluster = Reloaded("cluster", read_cluster, chain.cluster or ())
        self.cluster = ReloadableCluster(cluster.value)
        cluster.tell(self.cluster.swap)
        self._clients = open_clients(self.cluster)
        hosted = [one for one in self._sources.selected if one.hosted]
        tls = ServicesTls.of(settings)
        self.kept: Sequence[Kept[Any]] = () if tls is None else tls.kept
        self._conditions, hops = ConditionMetrics(), HopMetrics()
        self._mutator = HostingService.open(
            "mutator",
            (settings.mutator,),
            Phase.MUTATE,
            hosted,
            tls=tls,
            server_name=settings.mutator_server_name,
            observe=hops.observer("mutator"),
            calls=settings.calls,
        )
        self._validator = HostingService.open(
            "validator",
            settings.validators,
            Phase.VALIDATE,
            hosted,
            tls=tls,
            server_name=settings.validator_server_name,
            observe=hops.observer("validator"),
            calls=settings.calls,
        )
        read_configurations = functools.partial(load_configurations, chain.config)
        configurations = Reloaded("configuration", read_configurations, chain.config)
        configurations.tell(self._use_configurations)
        hops.show_addresses((self._mutator, self._validator))
        self._chain, self._webhooks = self._assemble(configurations.value)
        watched = [one for one in (cluster, configurations) if one.paths]
        reloads = ReloadMetrics([one.reloads for one in watched])
        self.collectors: Sequence[Collector] = (hops, self._conditions, reloads)
        """What it counts, for metrics."""
        self._background = {asyncio.ensure_future(keep_reloading([one])) for one in watched}
        if tls is not None:
            for one in tls.kept:
                one.tell(self._renew_channels)
            self._background.add(asyncio.ensure_future(keep_fresh(tls.kept)))

    def _assemble(self, configurations: Configurations) -> tuple[Chain, WebhookTransports]:
        self._tell_idle(configurations)
        webhooks = WebhookTransports(self._clients, self._sources.credentials())
        parts = Parts(
            controllers=self._sources.selected,
            configurations=configurations,
            mutator=self._mutator.transport,
            validator=self._validator.transport,
            reach=webhooks.reach,
            plugin_configurations=self._sources.plugin_configurations,
            first_denial_only=self._first_denial_only,
            conditions=self._conditions,
        )
        return assemble(parts), webhooks

    def _tell_idle(self, configurations: Configurations) -> None:
        """Warn of what can do nothing. It is valid, so that it keeps nobody from starting."""
        for line in self._sources.idle(configurations, self.cluster.current):
            place, _, text = line.rpartition("warning: ")
            _log.warning("does nothing", extra={"file": place.rstrip(": "), "reason": text})

    def _use_configurations(self, configurations: Configurations) -> None:
        before = self._webhooks
        self._chain, self._webhooks = self._assemble(configurations)
        closing = asyncio.ensure_future(_close_later(before))
        self._background.add(closing)
        closing.add_done_callback(self._background.discard)

    async def _renew_channels(self, _: object) -> None:
        await asyncio.gather(self._mutator.transport.renew(), self._validator.transport.renew())

    async def decide(
        self, review: Review, phases: frozenset[Phase], deadline: Deadline, *, explain: bool = False
    ) -> Decision:
        """Run a review through the phases asked for."""
        return await self._chain.decide(review, phases, deadline, explain=explain)

    async def unready(self) -> Sequence[str]:
        """Why the services cannot be asked now."""
        reasons = await asyncio.gather(self._mutator.unready(), self._validator.unready())
        return [reason for reason in reasons if reason]

    async def close(self) -> None:
        """Let go of connections."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._webhooks.close()
        await self._mutator.transport.close()
        await self._validator.transport.close()


async def _close_later(webhooks: WebhookTransports) -> None:
    try:
        await asyncio.sleep(_LONGEST_REVIEW_SECONDS)
    finally:
        await webhooks.close()
