"""Trials: requests put to the real chain while the servers behind all webhooks are down.

Rules, selectors, match conditions, policies and failure policies decide as ever; only the calls are not made. Each is
noted, and the chain goes on: so one run tells what the silence of every webhook would lead to, however many there are.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Self

from pratique.admission.controllers import BOTH, Controller, Phase
from pratique.admission.results import ALLOWED, Outcome
from pratique.admission.results import OutcomeStatus as StepOutcome
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
from pratique.hosting.hosts import MutatorHost, ValidatorHost
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
"""How long one request may take. Nothing is waited for: it is there because every decision has a deadline."""
_ASKS_OTHERS = frozenset({"InitialResources", "NamespaceAutoProvision"})
"""Controllers that ask a server for its measurements, or write to the cluster."""


class _CalledWebhooks(NamedTuple):
    """Which webhooks have been called."""

    names: set[WebhookName]


@dataclasses.dataclass(frozen=True, slots=True)
class _SilentTransport:
    """A transport to a server that is down: the call is noted, and the chain goes on as though it had been answered."""

    name: WebhookName
    heard: _CalledWebhooks
    endpoint: str = ""

    async def mutate(self, _: Review, calls: Sequence[Call], __: Deadline) -> Sequence[Outcome]:
        """Note the call, and let everything through unchanged."""
        self.heard.names.add(self.name)
        return [Outcome(controller=call.name, decision=ALLOWED) for call in calls]

    validate = mutate

    async def close(self) -> None:
        """Nothing is open."""


class OutageSimulation:
    """Tries requests on the chain of some configurations. To be left by ``with``."""

    def __init__(self, settings: ChainSettings, configurations: Configurations, cluster: Cluster) -> None:
        """Make the chain; nothing is called, charged or written by it.

        Raises:
            ConfigurationError: the settings cannot be used.
        """
        sources = ChainSources.read(with_ledger_url(settings, ""))
        self._controllers = frozenset(one.name for one in sources.selected)
        callers = [one for one in sources.selected if one.name in _CONFIGURATION_KINDS]
        shaping = [
            one for one in sources.selected if one.name in _CONFIGURATION_KINDS or _may_change_objects(one)
        ]
        hosted = sources.configure(shaping)
        for one in hosted:
            one.handlers.use_configurations(configurations)
        known = AssumedCluster(cluster)
        self._known = known
        self._runner = asyncio.Runner()
        self._heard = _CalledWebhooks(set())
        self._hosts = InProcessTransport(MutatorHost(hosted, known), ValidatorHost(hosted, known))
        self._configurations = configurations
        self._plugin_configurations = sources.plugin_configurations
        self._callers = callers
        self._names = {
            id(webhook): WebhookName(one.kind, one.name, webhook.name)
            for one in (*configurations.mutating, *configurations.validating)
            for webhook in one.webhooks
        }
        self._closed = {
            self._names[id(webhook)]
            for one in (*configurations.mutating, *configurations.validating)
            for webhook in one.webhooks
            if webhook.failure_policy == "Fail"
        }
        """Those whose silence refuses. Of several of one name, it is enough that one does."""
        self._chains = (self._chain(shaping, configurations), self._chain(callers, configurations))

    @property
    def controllers(self) -> frozenset[str]:
        """The names of the admission controllers that are on."""
        return self._controllers

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of what the controllers hold."""
        with self._runner as runner:
            runner.run(self._hosts.close())

    def __call__(self, review: Review) -> OutageResult:
        """Try one request: which webhooks refuse it by their silence, one by one."""
        return self._runner.run(self._try(review))

    async def _try(self, review: Review) -> OutageResult:
        whole, bare = self._chains
        tried, is_admitted = await self._try_on(whole, review)
        if not is_admitted:
            # What other controllers refuse is no matter of webhooks, and must not hide what these do.
            tried, _ = await self._try_on(bare, review)
        return tried

    async def _try_on(self, chain: Chain, review: Review) -> tuple[OutageResult, bool]:
        """Ask once, and tell from the failure policies what the silence of those called would have led to."""
        self._heard.names.clear()
        decision = await chain.decide(review, BOTH, Deadline.after(_SECONDS))
        failed = frozenset(_names(decision, StepOutcome.FAILED))
        failed_open = frozenset(_names(decision, StepOutcome.FAILED_OPEN))
        called = frozenset(self._heard.names)
        tried = OutageResult((called & self._closed) | failed, (called - self._closed) | failed_open)
        return tried, decision.allowed

    def reached(self, review: Review) -> frozenset[WebhookName]:
        """Which webhooks would be called for a request, each by itself, or refuse it without being called."""
        return self._runner.run(self._reach(dataclasses.replace(review, cluster=self._known)))

    async def _reach(self, review: Review) -> frozenset[WebhookName]:
        found, decision = await self._called(self._chains[1], review)
        if any(
            name.kind is WebhookConfigurationKind.MUTATING for name in _names(decision, StepOutcome.FAILED)
        ):
            # The chain has ended there. What comes after it is asked by itself.
            for chain in self._single_chains:
                more, _ = await self._called(chain, review)
                found |= more
        return found

    async def _called(self, chain: Chain, review: Review) -> tuple[frozenset[WebhookName], Decision]:
        self._heard.names.clear()
        decision = await chain.decide(review, BOTH, Deadline.after(_SECONDS))
        refused = _names(decision, StepOutcome.FAILED)
        return frozenset(self._heard.names | set(refused)), decision

    @functools.cached_property
    def _single_chains(self) -> tuple[Chain, ...]:
        """A chain for each webhook."""
        known = self._configurations
        return tuple(
            self._chain(self._callers, configurations)
            for configurations in (
                *(Configurations(mutating=(one,)) for one in _split_by_webhook(known.mutating)),
                *(Configurations(validating=(one,)) for one in _split_by_webhook(known.validating)),
            )
        )

    def _chain(self, controllers: Sequence[Controller], configurations: Configurations) -> Chain:
        def reach(webhook: Webhook, phase: Phase) -> _SilentTransport:
            del phase
            return _SilentTransport(self._names[id(webhook)], self._heard)

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
    """Whether a controller may change what webhooks look at, and asks and writes to nobody for that."""
    return (
        Phase.MUTATE in controller.phases
        and controller.trusted
        and controller.hosted
        and not controller.needs_backend
        and controller.name not in _ASKS_OTHERS
    )


def _names(decision: Decision, outcome: StepOutcome) -> Iterator[WebhookName]:
    for step in decision.steps:
        if step.outcome is outcome and step.controller in _CONFIGURATION_KINDS:
            yield WebhookName(_CONFIGURATION_KINDS[step.controller], step.configuration, step.name)
