"""Rules about what is configured and can do nothing."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.admission.futile_rules import RuleChecker
from pratique.apimachinery.statuses import go_quoted
from pratique.lint import without_effect
from pratique.lint.outage_simulation import OutageResult
from pratique.lint.rules import Violation, LintFinding, LintRule, Severity, LintContext, is_suppressed
from pratique.lint.without_effect import always_true, constant_conditions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pratique.admission.controllers import Controller
    from pratique.admission.reviews import Review
    from pratique.cluster.store import Cluster
    from pratique.configuration.loading import Configurations
    from pratique.configuration.policies import PolicyBindingSpec, PolicyConfiguration, PolicySpec
    from pratique.lint.outage_simulation import WebhookName


def _policies_with_bindings(
    context: LintContext,
) -> Iterator[tuple[Sequence[PolicyConfiguration[PolicySpec]], Sequence[PolicyConfiguration[PolicyBindingSpec]]]]:
    all_of_them = context.configurations
    yield all_of_them.mutating_policies, all_of_them.mutating_bindings
    yield all_of_them.validating_policies, all_of_them.validating_bindings


def _find_unbound_policies(context: LintContext) -> Iterator[Violation]:
    for policies, bindings in _policies_with_bindings(context):
        bound = {binding.spec.policy_name for binding in bindings}
        for policy in policies:
            if policy.name not in bound:
                yield Violation(policy, ("metadata", "name"), "no binding here names it: it does nothing")


UNBOUND = LintRule(
    rule="policy-unbound",
    severity=Severity.WARNING,
    explanation="A policy does nothing until a binding names it.",
    fix="Write a binding whose policyName is the name of the policy.",
    check=_find_unbound_policies,
)


def _find_bindings_without_policy(context: LintContext) -> Iterator[Violation]:
    for policies, bindings in _policies_with_bindings(context):
        there = {policy.name for policy in policies}
        for binding in bindings:
            wanted = binding.spec.policy_name
            if wanted not in there:
                text = f"there is no policy {go_quoted(wanted)} here: it does nothing"
                yield Violation(binding, ("spec", "policyName"), text)


WITHOUT_POLICY = LintRule(
    rule="binding-without-policy",
    severity=Severity.WARNING,
    explanation="A binding does nothing until there is a policy of the name that it gives, and of its kind.",
    fix="Correct policyName, or add the policy.",
    check=_find_bindings_without_policy,
)


def _find_constant_expressions(context: LintContext) -> Iterator[Violation]:
    for owner, path, value in constant_conditions(context):
        if value:
            yield Violation(owner, path, "is true of every request: it narrows nothing")
    for policy in context.policies:
        for index in always_true(policy):
            path = ("spec", "validations", index, "expression")
            yield Violation(policy, path, "is true of every request: it refuses nothing")


CONSTANTS = LintRule(
    rule="cel-cannot-match",
    severity=Severity.WARNING,
    explanation="A condition or validation that comes out the same whatever the request does nothing, or too much.",
    fix="Write an expression that depends on the request, or take it out.",
    check=_find_constant_expressions,
)


CERTAIN = (without_effect.MATCHES_NOTHING, without_effect.WITHOUT_EFFECT)
"""Practices by which what is told is so in every cluster."""
ALL = (
    *CERTAIN,
    without_effect.MAY_MATCH_NOTHING,
    without_effect.WITHOUT_PARAMS,
    UNBOUND,
    WITHOUT_POLICY,
)
"""Those besides that depend on what there is in the cluster, and on all configurations being here."""


@dataclasses.dataclass(frozen=True, slots=True)
class _NoOutageSimulator:
    """Stands for a trial where nothing is tried, and only the names of the controllers are asked for."""

    controllers: frozenset[str]

    def reached(self, review: Review) -> frozenset[WebhookName]:
        del review
        return frozenset()

    def __call__(self, review: Review) -> OutageResult:
        del review
        return OutageResult()


def idle_configurations(
    configurations: Configurations,
    cluster: Cluster,
    controllers: Sequence[Controller],
    lint_rules: Collection[LintRule] = ALL,
) -> Iterator[str]:
    """Tell of each configuration, policy or binding that can do nothing, a line each.

    Comments that switch off the rules of ``pratique check`` hold here, too.
    """
    context = LintContext(configurations, cluster, _NoOutageSimulator(frozenset(one.name for one in controllers)), 0.0)
    for lint_rule in lint_rules:
        for violation in lint_rule.check(context):
            if not is_suppressed(violation.owner.source, violation.path, lint_rule.rule):
                yield LintFinding(lint_rule, violation).told(Severity.WARNING)


def idle_controllers(
    configured: Collection[str], controllers: Sequence[Controller], cluster: Cluster
) -> Iterator[str]:
    """Tell of settings for controllers that are off, and of rules of somebody else's that match nothing.

    Args:
        configured: The names of the controllers that are told something.
        controllers: Those that are on.
        cluster: Knows which kinds there are.
    """
    names = {one.name for one in controllers}
    for name in configured:
        if name not in names:
            yield f"warning: admission plugin {name} is switched off: its configuration does nothing"
    futile = RuleChecker(cluster.resources)
    for one in controllers:
        if not one.trusted:
            for rule in one.rules:
                for fault in futile.find(rule):
                    yield f"warning: a rule of {one.name} matches nothing: {fault.text}"
