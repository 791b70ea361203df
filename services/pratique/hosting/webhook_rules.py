"""The rules that an API server needs in order to call Pratique for everything that a chain matches.

Each enabled controller matches by its own rules; policies and webhooks match by those of their configurations. What
they match together is written with as few rules as an API server accepts, because it refuses a rule that lists a
resource beside a wildcard for it.
Source: ``k8s.io/kubernetes/pkg/apis/admissionregistration/validation/validation.go`` ``validateResources``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from pratique.admission.controllers import Controller, Phase
from pratique.admission.rules import Rule
from pratique.configuration.admissionregistration import PolicyBindingSpec, PolicyConfiguration, PolicySpec
from pratique.configuration.loading import Configurations

_ANY = "*"


def rules_of_chain(
    controllers: Iterable[Controller], configurations: Configurations, phases: frozenset[Phase]
) -> tuple[Rule, ...]:
    """Return rules that match every request that the chain handles in any of the phases, and no others.

    The controllers that call webhooks and policies match what these match; a policy without a binding matches nothing.
    Selectors and match conditions are left to the chain.
    """
    found = [rule for controller in controllers for rule in _rules(controller, configurations, phases)]
    return merge_rules(found)


def matches_everything(controllers: Iterable[Controller], phases: frozenset[Phase]) -> list[str]:
    """Return the names of the controllers that match every resource."""
    return [
        controller.name
        for controller in controllers
        if controller.hosted
        and controller.name not in _POLICY_CONTROLLERS
        and controller.phases & phases
        and any(_ANY in rule.api_groups and "*/*" in rule.resources for rule in controller.rules)
    ]


def merge_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Write rules as few rules that match the same requests, in a stable order."""
    single = _with_joined_operations(rules)
    kept = [
        rule
        for index, rule in enumerate(single)
        if not any(
            covers(other, rule) and (position < index or not covers(rule, other))
            for position, other in enumerate(single)
            if position != index
        )
    ]
    joined: dict[Rule, list[str]] = {}
    for rule in kept:
        joined.setdefault(replace(rule, resources=()), []).extend(rule.resources)
    return tuple(replace(rule, resources=tuple(sorted(resources))) for rule, resources in joined.items())


def covers(wider: Rule, narrower: Rule) -> bool:
    """Return whether one rule matches every request that another one does."""
    return (
        wider.scope in (None, _ANY, narrower.scope)
        and _includes(wider.operations, narrower.operations)
        and _includes(wider.api_groups, narrower.api_groups)
        and _includes(wider.api_versions, narrower.api_versions)
        and all(
            any(_covers_resource(entry, resource) for entry in wider.resources)
            for resource in narrower.resources
        )
    )


def _rules(
    controller: Controller, configurations: Configurations, phases: frozenset[Phase]
) -> Iterable[Rule]:
    if not controller.phases & phases:
        return ()
    match controller.name:
        case "MutatingAdmissionWebhook":
            return (
                rule for found in configurations.mutating for hook in found.webhooks for rule in hook.rules
            )
        case "ValidatingAdmissionWebhook":
            return (
                rule for found in configurations.validating for hook in found.webhooks for rule in hook.rules
            )
        case "MutatingAdmissionPolicy":
            return _policy_rules(configurations.mutating_policies, configurations.mutating_bindings)
        case "ValidatingAdmissionPolicy":
            return _policy_rules(configurations.validating_policies, configurations.validating_bindings)
        case _:
            return controller.rules


_POLICY_CONTROLLERS = frozenset({"MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"})


def _policy_rules(
    policies: Iterable[PolicyConfiguration[PolicySpec]],
    bindings: Iterable[PolicyConfiguration[PolicyBindingSpec]],
) -> Iterator[Rule]:
    bound = {(binding.spec.policy_name, binding.is_static) for binding in bindings}
    for policy in policies:
        constraints = policy.spec.match_constraints
        if constraints is None or (policy.name, policy.is_static) not in bound:
            continue
        for named in constraints.resource_rules:
            # A webhook's rule has no resourceNames: it matches all names, and the policy chooses among them.
            yield Rule(
                named.operations, named.api_groups, named.api_versions, named.resources, named.scope or _ANY
            )


def _with_joined_operations(rules: Iterable[Rule]) -> list[Rule]:
    """One rule for each resource, with the operations of all rules that differ in nothing else."""
    operations: dict[Rule, list[str]] = {}
    for rule in rules:
        for resource in rule.resources:
            key = Rule(
                (), _normal(rule.api_groups), _normal(rule.api_versions), (resource,), rule.scope or _ANY
            )
            operations.setdefault(key, []).extend(rule.operations)
    return [replace(rule, operations=_normal(found)) for rule, found in operations.items()]


def _normal(entries: Sequence[str]) -> tuple[str, ...]:
    """Sort entries, and leave out what a wildcard includes."""
    return (_ANY,) if _ANY in entries else tuple(sorted(set(entries)))


def _includes(wider: Sequence[str], narrower: Sequence[str]) -> bool:
    return _ANY in wider or set(narrower) <= set(wider)


def _covers_resource(wider: str, narrower: str) -> bool:
    resource, _, subresource = narrower.partition("/")
    wide_resource, _, wide_subresource = wider.partition("/")
    return wide_resource in (_ANY, resource) and wide_subresource in (_ANY, subresource)
