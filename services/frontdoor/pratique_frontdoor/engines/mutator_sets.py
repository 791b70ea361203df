"""The mutators of a chain one by one, so that one can run alone, and several in any order.

The chain of one mutator is assembled from the parts of the whole chain, without all other mutators.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import msgspec

from pratique.admission.controllers import Controller, Phase
from pratique.admission.reviews import Deadline, Review
from pratique.admission.rules import Rule
from pratique.cluster.store import Cluster, ObjectStore
from pratique.configuration.admissionregistration import (
    MutatingAdmissionPolicySpec,
    PolicyBindingSpec,
    PolicyConfiguration,
    WebhookConfiguration,
)
from pratique.configuration.loading import Configurations
from pratique.configuration.settings import ChainSettings
from pratique.hosting.catalogue import HostedController, configure_controller
from pratique.hosting.running import MutatorHost, ValidatorHost
from pratique_frontdoor.chain.assembly import ChainParts, assemble
from pratique_frontdoor.chain.decisions import Decision, MutatingStage
from pratique_frontdoor.engines.local import InProcessTransport, LocalEngine


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mutator:
    """One mutator of a chain: a hosted controller, one policy with one binding, or one webhook."""

    controller: str
    """The admission controller, as steps name it."""
    name: str
    """The controller, policy or webhook."""
    configuration: str = ""
    """The binding or webhook configuration; empty for controllers."""
    rules: tuple[Rule, ...] = dataclasses.field(default=(), compare=False, repr=False)
    """The requests that it is called for."""
    stages: tuple[MutatingStage, ...] = dataclasses.field(default=(), compare=False, repr=False)
    """The stages that run it."""
    placed: bool = dataclasses.field(default=False, compare=False)
    """Whether its position is fixed by Kubernetes, so that no name can change it."""
    handler: object = dataclasses.field(default=None, compare=False, repr=False)
    """The handler of a third-party controller; None for all others."""

    def __str__(self) -> str:
        """Return its name in findings: controller, configuration and name."""
        return "/".join(dict.fromkeys(filter(None, (self.controller, self.configuration, self.name))))


class MutatorSet:
    """All mutators of a chain. Create it within the event loop that runs it."""

    def __init__(self, settings: ChainSettings, store: ObjectStore) -> None:
        """Read all configuration.

        Raises:
            ConfigurationError: the configuration cannot be used.
        """
        self._engine = LocalEngine(settings, store)
        self._whole = assemble(self._engine.parts)
        self.mutators = tuple(_mutators(self._engine.parts, store))
        """The mutators, in chain order."""

    @property
    def cluster(self) -> Cluster:
        """The cluster that the chain looks objects up in."""
        return self._engine.cluster

    @property
    def configurations(self) -> Configurations:
        """The configurations of ``--config``."""
        return self._engine.parts.configurations

    async def decide(
        self,
        review: Review,
        phases: frozenset[Phase],
        deadline: Deadline,
        order: Sequence[Mutator] | None = None,
    ) -> Decision:
        """Run a review through the requested phases.

        Args:
            review: The review.
            phases: The phases to run.
            deadline: When the decision must be ready.
            order: The mutators that run, in that order, reinvoked as in any chain; None runs all in chain order.
        """
        chain = self._whole
        if order is not None:
            stages = tuple(stage for mutator in order for stage in mutator.stages)
            chain = msgspec.structs.replace(chain, mutating=stages)
        return await chain.decide(review, phases, deadline)

    async def close(self) -> None:
        """Close connections and controllers."""
        await self._engine.close()


def _mutators(parts: ChainParts, store: ObjectStore) -> Iterator[Mutator]:
    handlers = {hosted.controller.name: hosted.handlers.mutate for hosted in _hosted(parts)}
    for controller in parts.controllers:
        if Phase.MUTATE not in controller.phases:
            continue
        if controller.name == "MutatingAdmissionPolicy":
            yield from _policy_mutators(controller, parts, store)
        elif controller.name == "MutatingAdmissionWebhook":
            yield from _webhook_mutators(controller, parts)
        elif controller.hosted:
            yield _plugin_mutator(
                controller, parts, None if controller.trusted else handlers.get(controller.name)
            )


def _hosted(parts: ChainParts) -> Sequence[HostedController]:
    return parts.mutator.mutator.hosted if isinstance(parts.mutator, InProcessTransport) else ()


def _plugin_mutator(controller: Controller, parts: ChainParts, handler: object) -> Mutator:
    alone = msgspec.structs.replace(parts, controllers=(controller,), configurations=Configurations())
    return Mutator(
        controller=controller.name,
        name=controller.name,
        rules=controller.rules,
        stages=assemble(alone).mutating,
        placed=controller.trusted,
        handler=handler,
    )


def _policy_mutators(controller: Controller, parts: ChainParts, store: ObjectStore) -> Iterator[Mutator]:
    configurations = parts.configurations
    for policy in configurations.mutating_policies:
        for binding in configurations.mutating_bindings:
            if (binding.spec.policy_name, binding.is_static) == (policy.name, policy.is_static):
                yield _policy_mutator(controller, parts, store, policy, binding)


def _policy_mutator(
    controller: Controller,
    parts: ChainParts,
    store: ObjectStore,
    policy: PolicyConfiguration[MutatingAdmissionPolicySpec],
    binding: PolicyConfiguration[PolicyBindingSpec],
) -> Mutator:
    """Host the controller again, with only this policy and this binding."""
    alone = Configurations(mutating_policies=(policy,), mutating_bindings=(binding,))
    hosted = configure_controller(controller, None)
    hosted.handlers.use_configurations(alone)
    transport = InProcessTransport(MutatorHost((hosted,), store), ValidatorHost((), store))
    of_one = msgspec.structs.replace(
        parts, controllers=(controller,), configurations=alone, mutator=transport
    )
    constraints = policy.spec.match_constraints
    return Mutator(
        controller=controller.name,
        name=policy.name,
        configuration=binding.name,
        rules=constraints.resource_rules if constraints else (),
        stages=assemble(of_one).mutating,
    )


def _webhook_mutators(controller: Controller, parts: ChainParts) -> Iterator[Mutator]:
    for configuration in parts.configurations.mutating:
        for webhook in configuration.webhooks:
            single: WebhookConfiguration = dataclasses.replace(configuration, webhooks=(webhook,))
            alone = msgspec.structs.replace(
                parts, controllers=(controller,), configurations=Configurations(mutating=(single,))
            )
            yield Mutator(
                controller=controller.name,
                name=webhook.name,
                configuration=configuration.name,
                rules=webhook.rules,
                stages=assemble(alone).mutating,
            )
