"""Simulated outages: requests run through the real chain while the servers of all webhooks are down.

Rules, selectors, match conditions, policies and failure policies work as usual; only the calls are not made. Each call
is recorded and the chain continues, so one run shows the effect of every webhook's outage, however many there are.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Self

import msgspec

from pratique.admission.controllers import BOTH, Controller, Phase
from pratique.admission.results import ALLOWED, Outcome, OutcomeStatus
from pratique.admission.reviews import Call, Deadline, Review
from pratique.cluster.store import Cluster
from pratique.configuration.admissionregistration import (
    Webhook,
    WebhookConfiguration,
    WebhookConfigurationKind,
)
from pratique.configuration.loading import Configurations
from pratique.configuration.settings import ChainSettings
from pratique.controllers.quota.ledger import with_ledger_url
from pratique.hosting.running import MutatorHost, ValidatorHost
from pratique.lint.outage_simulation import AssumedCluster, OutageResult, WebhookName
from pratique_frontdoor.chain.assembly import ChainParts, assemble
from pratique_frontdoor.chain.decisions import Chain, Decision
from pratique_frontdoor.engines.engine import ChainSources
from pratique_frontdoor.engines.local import InProcessTransport

_CONFIGURATION_KINDS = {
    "MutatingAdmissionWebhook": WebhookConfigurationKind.MUTATING,
    "ValidatingAdmissionWebhook": WebhookConfigurationKind.VALIDATING,
}
_SECONDS = 60.0
"""The deadline of one request. Nothing is waited for, but every decision needs a deadline."""
_ASKS_OTHERS = frozenset({"InitialResources", "NamespaceAutoProvision"})
"""Controllers that query a metrics server, or write to the cluster."""


class _CalledWebhooks(NamedTuple):
    """The webhooks that have been called."""

    names: set[WebhookName]


class _SilentTransport(msgspec.Struct, frozen=True):
    """A transport to a server that is down: the call is recorded, and the chain continues as if it had been allowed."""

    name: WebhookName
    called: _CalledWebhooks
    endpoint: str = ""

    async def mutate(self, _: Review, calls: Sequence[Call], __: Deadline) -> Sequence[Outcome]:
        """Record the call, and allow the request unchanged."""
        self.called.names.add(self.name)
        return [Outcome(controller=call.name, decision=ALLOWED) for call in calls]

    validate = mutate

    async def close(self) -> None:
        """Do nothing: there are no connections."""


class OutageSimulation:
    """Simulates an outage of all webhooks on the chain of some configurations. Use it as a context manager."""

    def __init__(self, settings: ChainSettings, configurations: Configurations, cluster: Cluster) -> None:
        """Build the chain; it calls, charges and writes nothing.

        Raises:
            ConfigurationError: the settings cannot be used.
        """
        sources = ChainSources.read(with_ledger_url(settings, ""))
        self._controllers = frozenset(controller.name for controller in sources.selected)
        callers = [controller for controller in sources.selected if controller.name in _CONFIGURATION_KINDS]
        shaping = [
            controller
            for controller in sources.selected
            if controller.name in _CONFIGURATION_KINDS or _may_change_objects(controller)
        ]
        hosted = sources.configure(shaping)
        for controller in hosted:
            controller.handlers.use_configurations(configurations)
        known = AssumedCluster(cluster)
        self._known = known
        self._runner = asyncio.Runner()
        self._called = _CalledWebhooks(set())
        self._hosts = InProcessTransport(MutatorHost(hosted, known), ValidatorHost(hosted, known))
        self._configurations = configurations
        self._plugin_configurations = sources.plugin_configurations
        self._callers = callers
        self._names = {
            id(webhook): WebhookName(configuration.kind, configuration.name, webhook.name)
            for configuration in (*configurations.mutating, *configurations.validating)
            for webhook in configuration.webhooks
        }
        self._closed = {
            self._names[id(webhook)]
            for configuration in (*configurations.mutating, *configurations.validating)
            for webhook in configuration.webhooks
            if webhook.failure_policy == "Fail"
        }
        """Webhooks whose outage denies requests. Among several of one name, one that does is enough."""
        self._chains = (self._chain(shaping, configurations), self._chain(callers, configurations))

    @property
    def controllers(self) -> frozenset[str]:
        """The names of the enabled admission controllers."""
        return self._controllers

    def __enter__(self) -> Self:
        """Start."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the controllers."""
        with self._runner as runner:
            runner.run(self._hosts.close())

    def __call__(self, review: Review) -> OutageResult:
        """Return which webhooks would deny one request by their outage, and which would fail open."""
        return self._runner.run(self._try(review))

    async def _try(self, review: Review) -> OutageResult:
        whole, without_others = self._chains
        simulated, is_admitted = await self._simulate(whole, review)
        if not is_admitted:
            # A denial by another controller must not hide what webhooks do.
            simulated, _ = await self._simulate(without_others, review)
        return simulated

    async def _simulate(self, chain: Chain, review: Review) -> tuple[OutageResult, bool]:
        """Run the chain once, and derive from failure policies what an outage of the called webhooks would do."""
        self._called.names.clear()
        decision = await chain.decide(review, BOTH, Deadline.after(_SECONDS))
        failed = frozenset(_names(decision, OutcomeStatus.FAILED))
        failed_open = frozenset(_names(decision, OutcomeStatus.FAILED_OPEN))
        called = frozenset(self._called.names)
        simulated = OutageResult((called & self._closed) | failed, (called - self._closed) | failed_open)
        return simulated, decision.allowed

    def reached(self, review: Review) -> frozenset[WebhookName]:
        """Return the webhooks that would be called for a request, each on its own, or would deny it without a call."""
        return self._runner.run(self._find_reached(msgspec.structs.replace(review, cluster=self._known)))

    async def _find_reached(self, review: Review) -> frozenset[WebhookName]:
        found, decision = await self._run(self._chains[1], review)
        if any(
            name.kind is WebhookConfigurationKind.MUTATING for name in _names(decision, OutcomeStatus.FAILED)
        ):
            # The chain ended there, so the webhooks after it are tried separately.
            for chain in self._single_chains:
                more, _ = await self._run(chain, review)
                found |= more
        return found

    async def _run(self, chain: Chain, review: Review) -> tuple[frozenset[WebhookName], Decision]:
        self._called.names.clear()
        decision = await chain.decide(review, BOTH, Deadline.after(_SECONDS))
        refused = _names(decision, OutcomeStatus.FAILED)
        return frozenset(self._called.names | set(refused)), decision

    @functools.cached_property
    def _single_chains(self) -> tuple[Chain, ...]:
        """A chain for each webhook."""
        known = self._configurations
        return tuple(
            self._chain(self._callers, configurations)
            for configurations in (
                *(
                    Configurations(mutating=(configuration,))
                    for configuration in _split_by_webhook(known.mutating)
                ),
                *(
                    Configurations(validating=(configuration,))
                    for configuration in _split_by_webhook(known.validating)
                ),
            )
        )

    def _chain(self, controllers: Sequence[Controller], configurations: Configurations) -> Chain:
        def reach(webhook: Webhook, phase: Phase) -> _SilentTransport:
            del phase
            return _SilentTransport(self._names[id(webhook)], self._called)

        return assemble(
            ChainParts(
                controllers=controllers,
                configurations=configurations,
                mutator=self._hosts,
                validator=self._hosts,
                reach=reach,
                plugin_configurations=self._plugin_configurations,
            )
        )


def _split_by_webhook(owners: Iterable[WebhookConfiguration]) -> Iterator[WebhookConfiguration]:
    for owner in owners:
        for webhook in owner.webhooks:
            yield dataclasses.replace(owner, webhooks=(webhook,))


def _may_change_objects(controller: Controller) -> bool:
    """Return whether a controller may change what webhooks match, and neither queries nor writes to a server for it."""
    return (
        Phase.MUTATE in controller.phases
        and controller.trusted
        and controller.hosted
        and not controller.needs_backend
        and controller.name not in _ASKS_OTHERS
    )


def _names(decision: Decision, outcome: OutcomeStatus) -> Iterator[WebhookName]:
    for step in decision.steps:
        if step.outcome is outcome and step.controller in _CONFIGURATION_KINDS:
            yield WebhookName(_CONFIGURATION_KINDS[step.controller], step.configuration, step.name)
