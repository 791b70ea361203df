"""Assembles a chain: from selected controllers and configured webhooks to stages in order."""

from __future__ import annotations

import enum
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from pratique.admission.controllers import Controller, Phase
from pratique.admission.namespace_provisioning import provisions_namespaces
from pratique.admission.reviews import Call
from pratique.admission.rules import compile_rules
from pratique.apimachinery.json_values import JSON
from pratique.configuration.admissionregistration import Webhook, WebhookConfiguration
from pratique.configuration.loading import Configurations
from pratique.policies.allow_lists import NO_ALLOW_LISTS, AllowLists
from pratique.policies.exceptions import Exemptions
from pratique.policies.rollouts import NO_ROLLOUTS, Rollouts
from pratique_frontdoor.chain.decisions import Chain, MutatingStage, ValidatingStage
from pratique_frontdoor.chain.fan_out import DivisiblePolicies, FanOut
from pratique_frontdoor.chain.hosted_controllers import (
    HostedMutators,
    HostedValidators,
    PolicyMutators,
)
from pratique_frontdoor.chain.policy_rules import ChainMember, PolicyRules, Rules, RulesWithSkipReason
from pratique_frontdoor.chain.violations import RestrictedController
from pratique_frontdoor.transports import ReplicatedTransport, Transport
from pratique_frontdoor.transports.circuit_breakers import CircuitBreakers

if TYPE_CHECKING:
    from pratique.telemetry.policy_metrics import MatchConditionMetrics
    from pratique_frontdoor.chain.webhooks import WebhookIndex

_MUTATING_POLICIES = "MutatingAdmissionPolicy"
_MUTATING_WEBHOOKS = "MutatingAdmissionWebhook"
_VALIDATING_WEBHOOKS = "ValidatingAdmissionWebhook"


class ChainParts(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Everything that a chain is assembled from."""

    controllers: Sequence[Controller]
    """The enabled controllers, in chain order."""
    configurations: Configurations
    """Webhook configurations sorted by name, policies and bindings."""
    mutator: Transport
    """Runs mutating controllers."""
    validator: Transport
    """Runs validating controllers."""
    reach: Callable[[Webhook, Phase], Transport]
    """Returns the transport to a webhook."""
    plugin_configurations: Mapping[str, JSON] = msgspec.field(default_factory=dict)
    """The configurations of controllers, by controller name."""
    timeouts: Mapping[str, float] = msgspec.field(default_factory=dict)
    """The time limits that the operator has set, in seconds, by controller name."""
    call_timeouts: Mapping[Phase, float | None] = msgspec.field(default_factory=dict)
    """The time limit of each call to a service, in seconds, by its phase; None means the review's."""
    replicas: ReplicatedTransport | None = None
    """Calls the replicas of the validator, among which the work of a review is divided; None divides nothing."""
    fan_out: int | None = None
    """The most shares; None divides where that makes a review shorter."""
    first_denial_only: bool = False
    """Stop at the first denial in chain order."""
    conditions: MatchConditionMetrics | None = None
    """Counts the results of webhooks' match conditions."""
    breakers: CircuitBreakers | None = None
    """Stops calls to webhooks that keep failing; None makes every call."""

    @functools.cached_property
    def exemptions(self) -> Exemptions:
        """The exceptions, by what they exempt from."""
        return Exemptions(self.configurations.exceptions)

    @functools.cached_property
    def allow_lists(self) -> AllowLists:
        """The allow-lists of mutations, by what they restrict."""
        return AllowLists(self.configurations.allow_lists)

    @functools.cached_property
    def rollouts(self) -> Rollouts:
        """The rollouts that do not enforce everywhere, by what they roll out."""
        return Rollouts(self.configurations.rollouts)


def assemble(parts: ChainParts) -> Chain:
    """Assemble the chain. Consecutive hosted controllers share one call."""
    return Chain(
        mutating=tuple(_mutating(parts)),
        validating=tuple(_validating(parts)),
        charging=tuple(
            _validators((_member(controller, parts),), parts)
            for controller in _in_phase(parts, Phase.VALIDATE)
            if controller.commits_quota
        ),
        first_denial_only=parts.first_denial_only,
        provisions=provisions_namespaces(parts.controllers),
        shows_stored_objects=_validates_any_field(parts),
    )


def _validates_any_field(parts: ChainParts) -> bool:
    """Tell whether a webhook, a policy or third-party code validates: Pratique's own controllers read no uid."""
    configurations = parts.configurations
    return (
        any(configuration.webhooks for configuration in configurations.validating)
        or bool(configurations.validating_policies)
        or any(not controller.trusted for controller in _in_phase(parts, Phase.VALIDATE))
    )


def _in_phase(parts: ChainParts, phase: Phase) -> list[Controller]:
    return [controller for controller in parts.controllers if phase in controller.phases]


def _mutating(parts: ChainParts) -> Iterator[MutatingStage]:
    for runner, group in itertools.groupby(_in_phase(parts, Phase.MUTATE), _run_by):
        controllers = list(group)
        if runner is _RunBy.SERVICE:
            members = _members(controllers, parts)
            yield HostedMutators(members, parts.mutator, _limits(members, Phase.MUTATE, parts))
        elif runner is _RunBy.SERVICE_ALONE:
            for member in _members(controllers, parts):
                yield PolicyMutators(member, parts.mutator, _limits((member,), Phase.MUTATE, parts))
        elif _has_webhooks(_MUTATING_WEBHOOKS, controllers, parts.configurations.mutating):
            from pratique_frontdoor.chain.webhook_controllers import MutatingWebhooks  # noqa: PLC0415 - many chains call none

            yield MutatingWebhooks(_webhook_index(parts, Phase.MUTATE))


def _validating(parts: ChainParts) -> Iterator[ValidatingStage]:
    not_charging = [
        controller for controller in _in_phase(parts, Phase.VALIDATE) if not controller.commits_quota
    ]
    for runner, group in itertools.groupby(not_charging, _run_by):
        controllers = list(group)
        members = _members(controllers, parts) if runner is _RunBy.SERVICE else ()
        if members:
            yield _validators(members, parts, _fan_out(controllers, parts))
        if _has_webhooks(_VALIDATING_WEBHOOKS, controllers, parts.configurations.validating):
            from pratique_frontdoor.chain.webhook_controllers import ValidatingWebhooks  # noqa: PLC0415 - many chains call none

            yield ValidatingWebhooks(_webhook_index(parts, Phase.VALIDATE))


def _validators(
    members: tuple[ChainMember, ...], parts: ChainParts, fan_out: FanOut | None = None
) -> HostedValidators:
    limits = _limits(members, Phase.VALIDATE, parts)
    return HostedValidators(members, parts.validator, limits, fan_out, parts.first_denial_only)


def _fan_out(controllers: Iterable[Controller], parts: ChainParts) -> FanOut | None:
    if parts.replicas is None or parts.fan_out == 1:
        return None
    configurations = parts.configurations
    policies = DivisiblePolicies(configurations.validating_policies, configurations.validating_bindings)
    if parts.fan_out is None and not policies.count and all(controller.trusted for controller in controllers):
        return None  # Pratique's own controllers together take less than a hop
    return FanOut(parts.replicas, policies, parts.fan_out)


def _limits(members: Iterable[ChainMember], phase: Phase, parts: ChainParts) -> Mapping[str, float]:
    """Return the time limits that hold for controllers: their own, or that of the call if it is shorter."""
    of_call = parts.call_timeouts.get(phase)
    limits = {}
    for member in members:
        given = [seconds for seconds in (member.call.timeout_seconds, of_call) if seconds is not None]
        if given:
            limits[member.call.name] = min(given)
    return limits


class _RunBy(enum.Enum):
    """Which process runs a controller."""

    FRONT_DOOR = "front door"
    SERVICE = "service"
    SERVICE_ALONE = "service, in a call of its own"


def _run_by(controller: Controller) -> _RunBy:
    if not controller.hosted:
        return _RunBy.FRONT_DOOR
    return _RunBy.SERVICE_ALONE if controller.name == _MUTATING_POLICIES else _RunBy.SERVICE


def _has_webhooks(
    name: str, controllers: Iterable[Controller], configurations: Sequence[WebhookConfiguration]
) -> bool:
    """Return whether any webhook is configured for a group. A stage without webhooks would cost every review a task."""
    return any(controller.name == name for controller in controllers) and any(
        configuration.webhooks for configuration in configurations
    )


def _members(controllers: Iterable[Controller], parts: ChainParts) -> tuple[ChainMember, ...]:
    """Prepare controllers to be called, and policies if there are any."""
    members = (_member(controller, parts) for controller in controllers)
    return tuple(member for member in members if not isinstance(member.rules, PolicyRules) or member.rules)


def _member(controller: Controller, parts: ChainParts) -> ChainMember:
    call = Call(
        controller.name,
        parts.timeouts.get(controller.name, controller.timeout_seconds),
        may_patch=controller.may_patch,
        commits_quota=controller.commits_quota,
        asked_once=controller.asked_once,
    )
    configurations = parts.configurations
    match controller.name:
        case "MutatingAdmissionPolicy":
            rules = PolicyRules(configurations.mutating_policies, configurations.mutating_bindings)
        case "ValidatingAdmissionPolicy":
            rules = PolicyRules(configurations.validating_policies, configurations.validating_bindings)
        case _:
            return ChainMember(
                call,
                _rules(controller, parts),
                has_members=controller.selects_requests,
                exemptions=parts.exemptions.of_controller(controller.name),
                restricted=RestrictedController.of(
                    controller, parts.allow_lists.of_controller(controller.name)
                ),
                # What charges for admitted requests does more than answer, so it is enforced whatever rollouts say.
                rollout=None if controller.commits_quota else parts.rollouts.of_controller(controller.name),
            )
    return ChainMember(
        call,
        rules,
        has_members=True,
        policy_rollouts=parts.rollouts or NO_ROLLOUTS,
        policy_allow_lists=parts.allow_lists or NO_ALLOW_LISTS,
    )


def _rules(controller: Controller, parts: ChainParts) -> Rules:
    rules = compile_rules(controller.rules)
    if controller.skip_reason is None or not controller.trusted:
        return rules  # third-party code never runs in this process
    configuration = parts.plugin_configurations.get(controller.name)
    return RulesWithSkipReason(rules, functools.partial(controller.skip_reason, configuration))


def _webhook_index(parts: ChainParts, phase: Phase) -> WebhookIndex:
    from pratique_frontdoor.chain.webhooks import configured_webhooks  # noqa: PLC0415 - many chains call no webhook

    both = parts.configurations
    configurations = both.mutating if phase is Phase.MUTATE else both.validating
    return configured_webhooks(
        configurations,
        phase,
        parts.reach,
        parts.conditions,
        parts.breakers,
        exemptions=parts.exemptions,
        rollouts=parts.rollouts,
        allow_lists=parts.allow_lists,
    )
