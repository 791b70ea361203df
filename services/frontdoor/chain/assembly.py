"""Assembling a chain: from the controllers selected and the webhooks configured to stages in order."""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
from typing import TYPE_CHECKING

from frontdoor.chain.chain import Chain
from frontdoor.chain.hosted_controllers import (
    ConcernedRules,
    HostedMutators,
    HostedValidators,
    Member,
    PolicyMutators,
    PolicyRules,
)
from pratique.admission.calls import Call
from pratique.admission.controllers import Phase
from pratique.admission.provisioning import provisions
from pratique.admission.rules import compile_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from frontdoor.chain.hosted_controllers import Rules
    from frontdoor.chain.stages import MutatingStage, ValidatingStage
    from frontdoor.chain.webhooks import HookList
    from frontdoor.transports import Transport
    from frontdoor.transports.circuit_breakers import CircuitBreakers
    from pratique.admission.controllers import Controller
    from pratique.apimachinery.json_values import JSON
    from pratique.configuration.loading import Configurations
    from pratique.configuration.webhooks import Webhook, WebhookConfiguration
    from pratique.telemetry.policy_metrics import ConditionMetrics

_MUTATING_POLICIES = "MutatingAdmissionPolicy"
_MUTATING_WEBHOOKS = "MutatingAdmissionWebhook"
_VALIDATING_WEBHOOKS = "ValidatingAdmissionWebhook"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a chain is made of."""

    controllers: Sequence[Controller]
    """The controllers that are on, in chain order."""
    configurations: Configurations
    """Webhooks, configurations sorted by name."""
    mutator: Transport
    """Runs mutating halves."""
    validator: Transport
    """Runs validating halves."""
    reach: Callable[[Webhook, Phase], Transport]
    """Gives the way to reach a webhook."""
    plugin_configurations: Mapping[str, JSON] = dataclasses.field(default_factory=dict)
    """What controllers are told, by their names."""
    first_denial_only: bool = False
    """Answer with the first denial alone."""
    conditions: ConditionMetrics | None = None
    """Counts what becomes of the match conditions of webhooks."""
    breakers: CircuitBreakers | None = None
    """Stops calls to webhooks that keep failing; None: every call is made."""


def assemble(parts: Parts) -> Chain:
    """Make the chain. Consecutive hosted controllers share one hop."""
    return Chain(
        mutating=tuple(_mutating(parts)),
        validating=tuple(_validating(parts)),
        charging=tuple(
            HostedValidators((_member(controller, parts),), parts.validator)
            for controller in _in_phase(parts, Phase.VALIDATE)
            if controller.charges
        ),
        first_denial_only=parts.first_denial_only,
        provisions=provisions(parts.controllers),
    )


def _in_phase(parts: Parts, phase: Phase) -> list[Controller]:
    return [controller for controller in parts.controllers if phase in controller.phases]


def _mutating(parts: Parts) -> Iterator[MutatingStage]:
    for runner, group in itertools.groupby(_in_phase(parts, Phase.MUTATE), _runner):
        controllers = list(group)
        if runner is _Runner.SERVICE:
            yield HostedMutators(_members(controllers, parts), parts.mutator)
        elif runner is _Runner.SERVICE_ALONE:
            yield from (PolicyMutators(one, parts.mutator) for one in _members(controllers, parts))
        elif _calls(_MUTATING_WEBHOOKS, controllers, parts.configurations.mutating):
            from frontdoor.chain.mutating_webhooks import MutatingWebhooks  # noqa: PLC0415 - many chains call none

            yield MutatingWebhooks(_hooks(parts, Phase.MUTATE))


def _validating(parts: Parts) -> Iterator[ValidatingStage]:
    judging = [one for one in _in_phase(parts, Phase.VALIDATE) if not one.charges]
    for runner, group in itertools.groupby(judging, _runner):
        controllers = list(group)
        members = _members(controllers, parts) if runner is _Runner.SERVICE else ()
        if members:
            yield HostedValidators(members, parts.validator)
        if _calls(_VALIDATING_WEBHOOKS, controllers, parts.configurations.validating):
            from frontdoor.chain.validating_webhooks import ValidatingWebhooks  # noqa: PLC0415 - many chains call none

            yield ValidatingWebhooks(_hooks(parts, Phase.VALIDATE))


class _Runner(enum.Enum):
    """Who runs a controller."""

    FRONT_DOOR = "front door"
    SERVICE = "service"
    SERVICE_ALONE = "service, in a call of its own"


def _runner(controller: Controller) -> _Runner:
    if not controller.hosted:
        return _Runner.FRONT_DOOR
    return _Runner.SERVICE_ALONE if controller.name == _MUTATING_POLICIES else _Runner.SERVICE


def _calls(
    name: str, controllers: Iterable[Controller], configurations: Sequence[WebhookConfiguration]
) -> bool:
    """Tell whether a group calls webhooks. A stage without any would cost every review a task of its own."""
    return any(one.name == name for one in controllers) and any(one.webhooks for one in configurations)


def _members(controllers: Iterable[Controller], parts: Parts) -> tuple[Member, ...]:
    """Make controllers ready to be called; policies where there are any."""
    members = (_member(controller, parts) for controller in controllers)
    return tuple(member for member in members if not isinstance(member.rules, PolicyRules) or member.rules)


def _member(controller: Controller, parts: Parts) -> Member:
    call = Call(controller.name, amends=controller.amends)
    given = parts.configurations
    match controller.name:
        case "MutatingAdmissionPolicy":
            rules = PolicyRules(given.mutating_policies, given.mutating_bindings)
        case "ValidatingAdmissionPolicy":
            rules = PolicyRules(given.validating_policies, given.validating_bindings)
        case _:
            return Member(call, _rules(controller, parts))
    return Member(call, rules, has_members=True)


def _rules(controller: Controller, parts: Parts) -> Rules:
    rules = compile_rules(controller.rules)
    if controller.unconcerned is None or not controller.trusted:
        return rules  # somebody else's code runs where it can harm no other review, and that is not here
    configuration = parts.plugin_configurations.get(controller.name)
    return ConcernedRules(rules, functools.partial(controller.unconcerned, configuration))


def _hooks(parts: Parts, phase: Phase) -> HookList:
    from frontdoor.chain.webhooks import configured_hooks  # noqa: PLC0415 - many chains call no webhook

    given = parts.configurations
    configurations = given.mutating if phase is Phase.MUTATE else given.validating
    return configured_hooks(configurations, phase, parts.reach, parts.conditions, parts.breakers)
