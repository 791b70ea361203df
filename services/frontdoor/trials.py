"""Trials: requests put to the real chain while the servers behind all webhooks are down.

Rules, selectors, match conditions, policies and failure policies decide as ever; only the calls are not made, and fail
at once.
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, NamedTuple, Self

from frontdoor.chain.assemble import Parts, assemble
from frontdoor.chain_sources import ChainSources
from frontdoor.decisions import StepOutcome
from frontdoor.transports.in_process import InProcessTransport
from mutator.hosts import MutatorHost
from pratique.calls import Deadline
from pratique.configurations.webhooks import ConfigurationKind
from pratique.definitions import BOTH, Phase
from pratique.errors import UnreachableError
from pratique.ledgers.places import placed
from pratique.outcomes import ALLOWED, Outcome
from pratique.practices.assumed_clusters import AssumedCluster
from pratique.practices.trials import HookName, Tried
from validator.hosts import ValidatorHost

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frontdoor.chain.chains import Chain
    from frontdoor.decisions import Decision
    from pratique.calls import Call
    from pratique.clusters import Cluster
    from pratique.configurations.all_configurations import Configurations
    from pratique.configurations.webhooks import Webhook
    from pratique.definitions import Controller
    from pratique.reviews import Review
    from pratique.settings import ChainSettings

_KINDS = {
    "MutatingAdmissionWebhook": ConfigurationKind.MUTATING,
    "ValidatingAdmissionWebhook": ConfigurationKind.VALIDATING,
}
_SECONDS = 60.0
"""How long one request may take. Nothing is waited for: it is there because every decision has a deadline."""
_ASKS_OTHERS = frozenset({"InitialResources", "NamespaceAutoProvision"})
"""Controllers that ask a server for its measurements, or write to the cluster."""


class _Answering(NamedTuple):
    """Which webhooks answer after all: those that are known to refuse."""

    names: set[HookName]


@dataclasses.dataclass(frozen=True, slots=True)
class _Silence:
    """A transport to a server that is down."""

    name: HookName
    answering: _Answering
    endpoint: str = ""

    async def mutate(self, _: Review, calls: Sequence[Call], __: Deadline) -> Sequence[Outcome]:
        """Fail, or let everything through unchanged where the refusal is known.

        Raises:
            UnreachableError: nobody is there.
        """
        if self.name not in self.answering.names:
            raise UnreachableError("failed to call webhook: connect: connection refused")
        return [Outcome(controller=call.name, decision=ALLOWED) for call in calls]

    validate = mutate

    async def close(self) -> None:
        """Nothing is open."""


class ChainTrial:
    """Tries requests on the chain of some configurations. To be left by ``with``."""

    def __init__(self, settings: ChainSettings, configurations: Configurations, cluster: Cluster) -> None:
        """Make the chain; nothing is called, charged or written by it.

        Raises:
            ConfigurationError: the settings cannot be used.
        """
        sources = ChainSources.read(placed(settings, ""))
        callers = [one for one in sources.selected if one.name in _KINDS]
        shaping = [one for one in sources.selected if one.name in _KINDS or _shapes(one)]
        hosted = sources.configure(shaping)
        for one in hosted:
            one.halves.use(configurations)
        known = AssumedCluster(cluster)
        self._runner = asyncio.Runner()
        self._answering = _Answering(set())
        self._hosts = InProcessTransport(MutatorHost(hosted, known), ValidatorHost(hosted, known))
        self._configurations = configurations
        self._plugin_configurations = sources.plugin_configurations
        self._chains = (self._chain(shaping), self._chain(callers))

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of what the controllers hold."""
        with self._runner as runner:
            runner.run(self._hosts.close())

    def __call__(self, review: Review) -> Tried:
        """Try one request: which webhooks refuse it by their silence, one by one."""
        return self._runner.run(self._try(review))

    async def _try(self, review: Review) -> Tried:
        whole, bare = self._chains
        tried, is_admitted = await self._try_on(whole, review)
        if not is_admitted:
            # What other controllers refuse is no matter of webhooks, and must not hide what these do.
            tried, _ = await self._try_on(bare, review)
        return tried

    async def _try_on(self, chain: Chain, review: Review) -> tuple[Tried, bool]:
        """Ask again and again, each time with those answering that refused before, and tell whether that helps."""
        refusing = self._answering.names
        refusing.clear()
        while True:
            decision = await chain.decide(review, BOTH, Deadline.after(_SECONDS))
            passed_over = frozenset(_names(decision, StepOutcome.FAILED_OPEN))
            found = set(_names(decision, StepOutcome.FAILED)) - refusing
            refusing |= found
            if not found:
                return Tried(frozenset(refusing), passed_over), decision.allowed

    def _chain(self, controllers: Sequence[Controller]) -> Chain:
        names = {
            id(webhook): HookName(one.kind, one.name, webhook.name)
            for one in (*self._configurations.mutating, *self._configurations.validating)
            for webhook in one.webhooks
        }

        def reach(webhook: Webhook, phase: Phase) -> _Silence:
            del phase
            return _Silence(names[id(webhook)], self._answering)

        return assemble(
            Parts(
                controllers=controllers,
                configurations=self._configurations,
                mutator=self._hosts,
                validator=self._hosts,
                reach=reach,
                plugin_configurations=self._plugin_configurations,
            )
        )


def _shapes(controller: Controller) -> bool:
    """Whether a controller may change what webhooks look at, and asks and writes to nobody for that."""
    return (
        Phase.MUTATE in controller.phases
        and controller.trusted
        and controller.hosted
        and not controller.asks_backend
        and controller.name not in _ASKS_OTHERS
    )


def _names(decision: Decision, outcome: StepOutcome) -> Iterator[HookName]:
    for step in decision.steps:
        if step.outcome is outcome and step.controller in _KINDS:
            yield HookName(_KINDS[step.controller], step.configuration, step.name)
