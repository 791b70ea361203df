"""Webhooks that answer in this process, as a script says: real outcomes for the real chain, thousands in a second."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
from collections.abc import Iterable, Sequence

from pratique.admission.controllers import BOTH, Phase
from pratique.admission.results import ALLOWED, Denied, Failed, FailureKind, Outcome, OutcomeDecision, Patched
from pratique.admission.reviews import Call, Deadline, Review
from pratique.admission.rules import EVERYTHING as EVERY_REQUEST
from pratique.admission.rules import Rule
from pratique.apimachinery import statuses
from pratique.apimachinery.diff import diff
from pratique.apimachinery.errors import BadAnswerError, CallTimeoutError, UnreachableError
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.selectors import EVERYTHING, LabelSelector
from pratique.cluster.store import ANY_NAMESPACE
from pratique.configuration.admissionregistration import (
    Webhook,
    WebhookConfiguration,
    WebhookConfigurationKind,
)
from pratique.configuration.loading import Configurations
from pratique.hosting.running import MutatorHost, ValidatorHost
from pratique_frontdoor.chain.assembly import ChainParts, assemble
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.engines.local import InProcessTransport
from support.chains import webhook_controllers

CALLERS = webhook_controllers()
"""The controllers that call webhooks."""


class Act(enum.Enum):
    """What a webhook does when it is called."""

    ALLOW = "allow"
    DENY = "deny"
    CHANGE = "change"
    TIME_OUT = "time out"
    BREAK_OFF = "break off"
    TALK_NONSENSE = "talk nonsense"
    SEND_NO_PATCH = "send something that is no patch"
    CRASH = "crash"


FAILING = (Act.TIME_OUT, Act.BREAK_OFF, Act.TALK_NONSENSE, Act.SEND_NO_PATCH)
"""What is a failed call, and so for the failure policy to decide."""


@dataclasses.dataclass
class Script:
    """One webhook, and what it does."""

    name: str
    act: Act = Act.ALLOW
    becomes: JSONObject | None = None
    """With ``CHANGE``: the object that it makes of any."""
    failure_policy: str = "Fail"
    rule: Rule = EVERY_REQUEST
    object_selector: LabelSelector = EVERYTHING
    namespace_selector: LabelSelector = EVERYTHING
    match_policy: str = "Equivalent"
    reinvocation_policy: str | None = None
    side_effects: str | None = "None"
    calls: int = 0
    endpoint: str = "scripted"

    @property
    def webhook(self) -> Webhook:
        return Webhook(
            name=self.name,
            rules=(self.rule,),
            failure_policy=self.failure_policy,
            match_policy=self.match_policy,
            object_selector=self.object_selector,
            namespace_selector=self.namespace_selector,
            reinvocation_policy=self.reinvocation_policy,
            side_effects=self.side_effects,
        )

    async def mutate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        (call,) = calls
        self.calls += 1
        return [Outcome(controller=call.name, decision=self._decided(review))]

    async def validate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        return await self.mutate(review, calls, deadline)

    async def close(self) -> None:
        """Nothing is open."""

    def _decided(self, review: Review) -> OutcomeDecision:
        match self.act:
            case Act.DENY:
                return Denied(statuses.failure(403, "Forbidden", "no"))
            case Act.CHANGE:
                operations = tuple(diff(review.object, self.becomes))
                return Patched(operations) if operations else ALLOWED
            case Act.TIME_OUT:
                raise CallTimeoutError("failed to call webhook: context deadline exceeded")
            case Act.BREAK_OFF:
                raise UnreachableError("failed to call webhook: EOF")
            case Act.TALK_NONSENSE:
                raise BadAnswerError("received invalid webhook response: webhook response was absent")
            case Act.SEND_NO_PATCH:
                return Failed(FailureKind.ERROR, "received undecodable patch in webhook response: EOF")
            case Act.CRASH:
                raise RuntimeError("a secret of the object")
            case _:
                return ALLOWED


def decide(
    review: Review,
    mutating: Iterable[Script] = (),
    validating: Iterable[Script] = (),
    *,
    explain: bool = False,
    phases: frozenset[Phase] = BOTH,
    configuration: str = "scripted",
) -> Decision:
    """Run a review through scripted webhooks."""
    of_phase = {Phase.MUTATE: list(mutating), Phase.VALIDATE: list(validating)}
    scripts = {(phase, one.name): one for phase, ones in of_phase.items() for one in ones}
    hosts = InProcessTransport(MutatorHost([], ANY_NAMESPACE), ValidatorHost([], ANY_NAMESPACE))
    chain = assemble(
        ChainParts(
            controllers=CALLERS,
            configurations=Configurations(
                _configured(WebhookConfigurationKind.MUTATING, configuration, of_phase[Phase.MUTATE]),
                _configured(WebhookConfigurationKind.VALIDATING, configuration, of_phase[Phase.VALIDATE]),
            ),
            mutator=hosts,
            validator=hosts,
            reach=lambda webhook, phase: scripts[phase, webhook.name],
        )
    )
    return asyncio.run(chain.decide(review, phases, Deadline.after(30), explain=explain))


def _configured(
    kind: WebhookConfigurationKind, name: str, scripts: Iterable[Script]
) -> tuple[WebhookConfiguration, ...]:
    return (WebhookConfiguration(kind, name, tuple(script.webhook for script in scripts)),)
