"""The remote engine: the chain of a front door, whose controllers run in the mutator and the validators."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from pratique.admission.controllers import Phase
from pratique.admission.reviews import Deadline, Review
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import RefusalError
from pratique.cluster.files import load_cluster
from pratique.cluster.store import ANY_NAMESPACE, Cluster, ObjectStore, ReloadableCluster
from pratique.configuration.input_digests import (
    InputDigests,
    RecentInputs,
    chain_digest,
    cluster_digest,
    configuration_digest,
)
from pratique.configuration.loading import Configurations, load_configurations
from pratique.configuration.settings import OnOff
from pratique.https.conversion_webhooks import HttpsConversionWebhooks
from pratique.https.tls import ReloadedCertificate, keep_certificates_fresh
from pratique.telemetry.logs import describe_error
from pratique.telemetry.metrics import ReloadCollector
from pratique.telemetry.policy_metrics import MatchConditionMetrics
from pratique.telemetry.reloading_files import Reloaded, keep_reloading
from pratique_frontdoor.chain.assembly import ChainParts, assemble
from pratique_frontdoor.chain.decisions import Chain, Decision
from pratique_frontdoor.engines.engine import ChainSources, open_clients
from pratique_frontdoor.http.metrics import ServiceCallMetrics
from pratique_frontdoor.settings import NEVER_HEDGED, FrontDoorSettings
from pratique_frontdoor.transports import Transport
from pratique_frontdoor.transports.circuit_breakers import CircuitBreakers, breaker_metrics
from pratique_frontdoor.webhooks.clients import WebhookTransports

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from pratique.cluster.live import LiveCluster
    from pratique.rpc.descriptions import QuotaUsage
    from pratique_frontdoor.transports.grpc import GrpcTransport
    from pratique_frontdoor.transports.hosting_services import HostingService

_log = logging.getLogger(__name__)

_LONGEST_REVIEW_SECONDS = 30.0
"""After this time, no review is in flight that began with the previous configuration: ``timeoutSeconds`` is at most
30."""


class _DecisionInputs(msgspec.Struct, frozen=True):
    """The chain and cluster of one set of inputs."""

    chain: Chain
    webhooks: WebhookTransports
    cluster: Cluster


class _ServiceTransport(Transport, Protocol):
    def agrees(self, digest: str) -> bool: ...

    async def renew(self) -> None: ...


class Service(Protocol):
    """A mutator or the validators, in this process or elsewhere."""

    @property
    def transport(self) -> _ServiceTransport:
        """The transport that calls it."""

    def require_inputs(self, held: RecentInputs[Any]) -> None:
        """Call only replicas that decide by the ``held`` inputs."""

    def differing_replicas(self, digests: InputDigests) -> list[str]:
        """Return a line for each replica that decides by other inputs."""

    def excluded(self) -> list[str]:
        """Return a line for each replica that is excluded because it is slow."""

    async def unready(self, digests: InputDigests) -> str:
        """Return why it cannot decide by these inputs; empty if it can."""


class RemoteEngine:
    """Decides reviews by calling the services.

    Configuration and cluster are reloaded when their files change. Invalid content is logged and ignored; reviews
    continue with the last valid content.
    """

    def __init__(
        self,
        settings: FrontDoorSettings,
        services: tuple[Service, Service] | None = None,
        live: LiveCluster | None = None,
        configurations: Reloaded[Configurations] | None = None,
    ) -> None:
        """Read all configuration and build the chain. Needs a running event loop.

        Args:
            settings: The front door's settings.
            services: The mutator and the validator; None opens those that the settings name.
            live: The live cluster that replaces the files of ``--cluster``. The engine closes it.

            configurations: The configurations; None reads those of files.

        Raises:
            ConfigurationError: the configuration cannot be used.
        """
        self._settings, chain = settings, settings.chain
        self._first_denial_only = chain.first_denial_only
        self._sources = ChainSources.read(chain)
        self._live = live
        cluster: Reloaded[ObjectStore] = (
            Reloaded("cluster", functools.partial(load_cluster, chain.cluster), chain.cluster or ())
            if live is None
            else Reloaded("cluster", lambda: live.current, ())
        )
        self.cluster = ReloadableCluster(cluster.value)
        cluster.add_listener(self._use_cluster)
        for notice in self._sources.notices(chain.release):
            _log.warning(
                "the chain has controllers or settings that Kubernetes has removed", extra={"reason": notice}
            )
        # In a live cluster DNS finds Services, so their endpoints need not be followed.
        self._clients = open_clients(self.cluster if live is None else ANY_NAMESPACE)
        self.reloaded_credentials: Sequence[ReloadedCertificate[Any]] = ()
        self._conditions, call_metrics = MatchConditionMetrics(), ServiceCallMetrics()
        self._called: tuple[HostingService, HostingService] | None = None
        if services is None:
            services = self._called = self._open_services(call_metrics)
        self.calls_services = self._called is not None
        """Whether controllers run in other processes, which check what they parse."""
        self._replicas: GrpcTransport | None = None if self._called is None else self._called[1].transport
        self._mutator, self._validator = self._services = services
        if configurations is None:
            read_configurations = functools.partial(load_configurations, chain.config)
            configurations = Reloaded("configuration", read_configurations, chain.config)
        configurations.add_listener(self._use_configurations)
        digests = InputDigests.of(
            chain_digest(self._sources.selected, self._sources.plugin_configurations),
            configuration_digest(configurations.value),
            cluster_digest(cluster.value),
        )
        chain_now, webhooks = self._assemble(configurations.value)
        self._held = RecentInputs(
            digests, _DecisionInputs(chain_now, webhooks, cluster.value), chain.reload_grace_seconds
        )
        self._webhooks = [webhooks]
        self._held.listen(self._close_unused_webhooks)
        for service in self._services:
            service.require_inputs(self._held)
        if self._called is not None:
            call_metrics.show_services(self._called, self._held)
        followed = [configurations] if chain.policies_from else []
        watched = [
            reloaded for reloaded in (cluster, configurations) if reloaded.paths or reloaded in followed
        ]
        self.reloaded: Sequence[Reloaded[Any]] = watched
        """What is reloaded when its files change."""
        reloads = ReloadCollector([reloaded.reloads for reloaded in watched])
        breakers = breaker_metrics(lambda: self._breakers) if settings.webhook_breaker_failures else ()
        self.collectors: Sequence[Collector] = (
            call_metrics,
            self._conditions,
            reloads,
            self._held,
            *breakers,
            *(() if live is None else (live,)),
        )
        """Its collectors of metrics."""
        self._background = {asyncio.ensure_future(keep_reloading([reloaded])) for reloaded in watched}
        self._background.add(asyncio.ensure_future(configurations.keep_current(self._held.suspend)))
        if live is not None:
            live.add_listener(self._use_live)
        elif chain.cluster:
            self._advise(self._warn_unread, cluster.value)
        self._advise(self._warn_without_effect, configurations.value)
        if credentials := self.reloaded_credentials:
            for certificate in credentials:
                certificate.add_listener(self._renew_channels)
            self._background.add(asyncio.ensure_future(keep_certificates_fresh(credentials)))

    @functools.cached_property
    def _conversion_webhooks(self) -> HttpsConversionWebhooks | None:
        calls = self._settings.chain.calls_conversion_webhooks
        return HttpsConversionWebhooks(self._clients) if calls else None

    def _open_services(self, call_metrics: ServiceCallMetrics) -> tuple[HostingService, HostingService]:
        # Imported here because a front door that runs the controllers itself needs no gRPC.
        from pratique_frontdoor.transports.hosting_services import HostingService, ServicesTls  # noqa: PLC0415

        settings = self._settings
        tls = ServicesTls.of(settings)
        if tls is not None:
            self.reloaded_credentials = tls.reloaded_credentials
        hosted = [controller for controller in self._sources.selected if controller.hosted]

        def open_service(
            name: str,
            addresses: Sequence[str],
            phase: Phase,
            server_name: str,
            timeout_seconds: float | None,
        ) -> HostingService:
            return HostingService.open(
                name,
                addresses,
                phase,
                hosted,
                tls=tls,
                server_name=server_name,
                observe=call_metrics.observer(name),
                calls=settings.calls,
                slow_seconds=settings.slow_replica_seconds,
                timeout_seconds=timeout_seconds,
                hedge_delay=settings.validator_hedge_after if phase is Phase.VALIDATE else NEVER_HEDGED,
            )

        return (
            open_service(
                "mutator",
                (settings.mutator,),
                Phase.MUTATE,
                settings.mutator_server_name,
                settings.mutator_timeout_seconds,
            ),
            open_service(
                "validator",
                settings.validators,
                Phase.VALIDATE,
                settings.validator_server_name,
                settings.validator_timeout_seconds,
            ),
        )

    def _advise(self, tell: Callable[[Any], None], value: object) -> None:
        """Look for warnings in a thread: no review waits for it, and nothing is refused because of it."""
        telling = asyncio.ensure_future(asyncio.to_thread(_advise, tell, value))
        self._background.add(telling)
        telling.add_done_callback(self._background.discard)

    def _warn_unread(self, cluster: Cluster) -> None:
        from pratique.lint.spellings import unread_in_cluster  # noqa: PLC0415 - only with --cluster, in a thread

        for problem in unread_in_cluster(cluster, self._settings.chain.release):
            _log.warning("the cluster has fields that no controller reads", extra={"reason": problem})

    def _assemble(self, configurations: Configurations) -> tuple[Chain, WebhookTransports]:
        webhooks = WebhookTransports(self._clients, self._sources.credentials())
        breakers = CircuitBreakers(self._settings)
        parts = ChainParts(
            controllers=self._sources.selected,
            configurations=configurations,
            mutator=self._mutator.transport,
            validator=self._validator.transport,
            reach=webhooks.reach,
            plugin_configurations=self._sources.plugin_configurations,
            timeouts=self._sources.timeouts,
            call_timeouts={
                Phase.MUTATE: self._settings.mutator_timeout_seconds,
                Phase.VALIDATE: self._settings.validator_timeout_seconds,
            },
            replicas=self._replicas,
            fan_out=self._settings.validator_fanout.shares,
            first_denial_only=self._first_denial_only,
            conditions=self._conditions,
            breakers=breakers,
        )
        chain = assemble(parts)
        self._breakers = breakers
        return chain, webhooks

    def _warn_without_effect(self, configurations: Configurations) -> None:
        """Warn of configuration without effect. It is valid, so it does not prevent a start."""
        if self._live is not None:
            return  # the search would look up kinds that no controller needs
        for line in self._sources.without_effect(configurations, self.cluster.current):
            place, _, text = line.rpartition("warning: ")
            _log.warning("configuration has no effect", extra={"file": place.rstrip(": "), "reason": text})

    async def _use_configurations(self, configurations: Configurations) -> None:
        digest = await asyncio.to_thread(configuration_digest, configurations)
        chain, webhooks = self._assemble(configurations)
        self._webhooks.append(webhooks)
        self._use_inputs(
            msgspec.structs.replace(self._held.current, chain=chain, webhooks=webhooks), configuration=digest
        )
        self._advise(self._warn_without_effect, configurations)

    async def _use_cluster(self, cluster: ObjectStore) -> None:
        digest = await asyncio.to_thread(cluster_digest, cluster)
        self.cluster.swap(cluster)
        self._use_inputs(msgspec.structs.replace(self._held.current, cluster=cluster), cluster=digest)
        self._advise(self._warn_unread, cluster)

    def _use_live(self, cluster: ObjectStore) -> None:
        self.cluster.swap(cluster)
        self._use_inputs(msgspec.structs.replace(self._held.current, cluster=cluster))

    def _use_inputs(self, decider: _DecisionInputs, **digests: str) -> None:
        now = self._held.digests._replace(**digests)
        self._held.switch_to(InputDigests.of(now.chain, now.configuration, now.cluster), decider)
        self._close_unused_webhooks()

    def _close_unused_webhooks(self) -> None:
        """Close the connections to webhooks of earlier chains, when no review uses them any more."""
        used = [decider.webhooks for _, decider in self._held]
        unused = [webhooks for webhooks in self._webhooks if webhooks not in used]
        self._webhooks = [webhooks for webhooks in self._webhooks if webhooks in used]
        for webhooks in unused:
            closing = asyncio.ensure_future(_close_later(webhooks))
            self._background.add(closing)
            closing.add_done_callback(self._background.discard)

    async def _renew_channels(self, _: object) -> None:
        await asyncio.gather(self._mutator.transport.renew(), self._validator.transport.renew())

    async def decide(
        self, review: Review, phases: frozenset[Phase], deadline: Deadline, *, explain: bool = False
    ) -> Decision:
        """Run a review through the requested phases, all with the newest inputs that the services also decide by."""
        if self._held.suspended:
            why = "; ".join(self._live_problems()) or "the live cluster's policies may be out of date"
            raise RefusalError(statuses.service_unavailable(why))
        digests, decider = self._agreed_inputs()
        review = msgspec.structs.replace(
            review,
            cluster=decider.cluster,
            digest=digests.whole,
            conversion_webhooks=self._conversion_webhooks,
            object_validation=self._settings.object_validation is OnOff.ON,
        )
        return await decider.chain.decide(review, phases, deadline, explain=explain)

    def _agreed_inputs(self) -> tuple[InputDigests, _DecisionInputs]:
        """Return the newest inputs that the services also decide by; without any, those of this front door."""
        for digests, decider in self._held:
            if all(service.transport.agrees(digests.whole) for service in self._services):
                return digests, decider
        return self._held.digests, self._held.current

    async def quota_usage(self) -> QuotaUsage:
        """Return how much of each quota is used, as the validators know; empty where this process runs them."""
        return {} if self._called is None else await self._called[1].quota_usage()

    async def unready(self) -> Sequence[str]:
        """Return the reasons why the services cannot be called now."""
        digests, _ = self._agreed_inputs()
        reasons = await asyncio.gather(*(service.unready(digests) for service in self._services))
        return [*(reason for reason in reasons if reason), *self._live_problems()]

    def _live_problems(self) -> Sequence[str]:
        return () if self._live is None else self._live.problems()

    def warnings(self) -> Mapping[str, Sequence[str]]:
        """Return warnings that do not fail the readiness probe, by topic.

        ``inputs`` names replicas that are not called, or only for earlier inputs, because their inputs differ;
        ``replicas`` those that are excluded because they are slow; ``webhooks`` those whose circuit breakers are not
        closed.
        """
        differing = [
            text for service in self._services for text in service.differing_replicas(self._held.digests)
        ]
        slow = [text for service in self._services for text in service.excluded()]
        broken = self._breakers.warnings()
        found = {"inputs": differing, "replicas": slow, "webhooks": broken}
        return {about: text for about, text in found.items() if text or about == "inputs"}

    async def close(self) -> None:
        """Close connections."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        self._held.close()
        if self._live is not None:
            await self._live.close()
        for webhooks in self._webhooks:
            await webhooks.close()
        if self._conversion_webhooks is not None:
            await self._conversion_webhooks.close()
        await self._mutator.transport.close()
        await self._validator.transport.close()


def _advise(tell: Callable[[Any], None], value: object) -> None:
    try:
        tell(value)
    except Exception as error:  # noqa: BLE001 - a failed warning must not stop anything
        _log.error("the search for warnings failed", extra={"reason": describe_error(error)})


async def _close_later(webhooks: WebhookTransports) -> None:
    try:
        await asyncio.sleep(_LONGEST_REVIEW_SECONDS)
    finally:
        await webhooks.close()
