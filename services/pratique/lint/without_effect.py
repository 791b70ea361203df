"""Rules about configurations that match nothing or change nothing: futile rules and selectors, constant expressions, unbound policies, and settings for controllers that are off."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pratique.admission.controllers import Controller
from pratique.admission.reviews import Review
from pratique.admission.rule_checks import RuleChecker
from pratique.admission.rules import Rule
from pratique.apimachinery.field_errors import Step
from pratique.apimachinery.kinds import ResourceType
from pratique.apimachinery.selectors import DOES_NOT_EXIST, LabelSelector, first_contradiction
from pratique.apimachinery.statuses import go_quoted
from pratique.cluster.api_resources import storage_group
from pratique.cluster.store import Cluster
from pratique.configuration.admissionregistration import (
    MatchResources,
    PolicyBindingSpec,
    PolicyConfiguration,
    PolicyKind,
    PolicySpec,
    ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec,
    WebhookConfigurationKind,
)
from pratique.configuration.loading import Configurations
from pratique.lint.outage_simulation import OutageResult, WebhookName
from pratique.lint.rules import LintContext, LintFinding, LintRule, Owner, Severity, Violation, is_suppressed

if TYPE_CHECKING:
    from pratique.cel.expressions import Expression
    from pratique.cel.policy_compiler import PolicyCompiler


def always_false(context: LintContext) -> Iterator[tuple[Owner, tuple[Step, ...]]]:
    """Where a match condition is false of every request."""
    return ((owner, path) for owner, path, value in constant_conditions(context) if value is False)


def constant_conditions(context: LintContext) -> Iterator[tuple[Owner, tuple[Step, ...], bool]]:
    """Where match conditions are constant, and what they are then."""
    for hook in context.hooks:
        for index, condition in enumerate(hook.webhook.match_conditions):
            from pratique.cel.environments import MATCH_CONDITION_ENVIRONMENT  # noqa: PLC0415 - brings CEL
            from pratique.cel.expressions import compile_expression  # noqa: PLC0415 - likewise

            value = _constant_value(
                compile_expression(condition.expression.strip(), MATCH_CONDITION_ENVIRONMENT, "bool")
            )
            if value is not None:
                yield hook.owner, ("webhooks", hook.index, "matchConditions", index, "expression"), value
    for policy in context.policies:
        for index, condition in enumerate(policy.spec.match_conditions):
            expression = _policy_compiler(policy.spec).compile(
                condition.expression, "bool", has_variables=False
            )
            value = _constant_value(expression)
            if value is not None:
                yield policy, ("spec", "matchConditions", index, "expression"), value


def always_true(policy: PolicyConfiguration[PolicySpec]) -> Iterator[int]:
    """Which validations of a policy are true of every request.

    One that is always false says that all that is matched is refused, which may well be meant.
    """
    from pratique.configuration.admissionregistration import ValidatingAdmissionPolicySpec  # noqa: PLC0415 - msgspec, needed here alone

    if not isinstance(policy.spec, ValidatingAdmissionPolicySpec):
        return
    compiler = _policy_compiler(policy.spec)
    for index, validation in enumerate(policy.spec.validations):
        if _constant_value(compiler.compile(validation.expression, "bool")):
            yield index


def _policy_compiler(spec: PolicySpec) -> PolicyCompiler:
    from pratique.cel.policy_compiler import PolicyCompiler  # noqa: PLC0415 - brings CEL

    compiler = PolicyCompiler(spec.param_kind is not None, None)
    for variable in spec.variables:
        compiler.add_variable(variable.name, variable.expression)
    return compiler


def _constant_value(expression: Expression) -> bool | None:
    """The value that an expression has whatever it is shown: the one that it has where it is shown nothing.

    Every variable is an error then, and what absorbs an error, as ``||`` and ``&&`` do, absorbs any value.
    """
    value, _ = expression.evaluate_with_cost({})
    return value if isinstance(value, bool) else None


_NAME_LABEL = "kubernetes.io/metadata.name"
"""The label that every namespace has."""
_CONSTRAINTS = ("spec", "matchConstraints")
_RESOURCES = ("spec", "matchResources")
_PLUGINS = {
    WebhookConfigurationKind.MUTATING: "MutatingAdmissionWebhook",
    WebhookConfigurationKind.VALIDATING: "ValidatingAdmissionWebhook",
    PolicyKind.MUTATING: "MutatingAdmissionPolicy",
    PolicyKind.VALIDATING: "ValidatingAdmissionPolicy",
}
"""The admission controllers that go by the configurations of each kind."""


class _MatchCriteria(NamedTuple):
    """One place that says which requests are meant."""

    owner: Owner
    path: tuple[Step, ...]
    rules: Sequence[Rule]
    rules_field: str
    namespaces: LabelSelector | None
    objects: LabelSelector | None

    def violation(self, text: str, *path: Step) -> Violation:
        return Violation(self.owner, (*self.path, *path), text)


@dataclasses.dataclass(frozen=True, slots=True)
class _FutileMatch:
    """Something that matches nothing."""

    violation: Violation
    certain: bool


def _match_criteria(context: LintContext) -> Iterator[_MatchCriteria]:
    for hook in context.hooks:
        one = hook.webhook
        path: tuple[Step, ...] = ("webhooks", hook.index)
        yield _MatchCriteria(
            hook.owner, path, one.rules, "rules", one.namespace_selector, one.object_selector
        )
    for policy in context.policies:
        if policy.spec.match_constraints is not None:
            yield _resources_criteria(policy, policy.spec.match_constraints, _CONSTRAINTS)
    for binding in context.bindings:
        if binding.spec.match_resources is not None:
            yield _resources_criteria(binding, binding.spec.match_resources, _RESOURCES)


def _resources_criteria(owner: Owner, given: MatchResources, path: tuple[Step, ...]) -> _MatchCriteria:
    selectors = given.namespace_selector, given.object_selector
    return _MatchCriteria(owner, path, given.resource_rules, "resourceRules", *selectors)


def _futile_matches(context: LintContext) -> Iterator[_FutileMatch]:
    for matching in _match_criteria(context):
        yield from _in_rules(matching, context)
        yield from _in_selectors(matching)
    for policy in context.policies:
        yield from _futile_exclusions(policy, context)
    for binding, policy in _bound_policies(context):
        yield from _disjoint_bindings(binding, policy, context)
    for hook in context.hooks:
        if not hook.webhook.rules:
            yield _FutileMatch(hook.violation("has no rules: it is never called", "rules"), certain=True)
    for owner, path in always_false(context):
        yield _FutileMatch(Violation(owner, path, "is false of every request: nothing matches"), certain=True)


def _in_rules(matching: _MatchCriteria, context: LintContext) -> Iterator[_FutileMatch]:
    for index, rule in enumerate(matching.rules):
        for one in context.futile_rules.find(rule):
            path = (matching.rules_field, index, one.field, *(() if one.index is None else (one.index,)))
            yield _FutileMatch(matching.violation(f"matches nothing: {one.text}", *path), one.certain)


def _in_selectors(matching: _MatchCriteria) -> Iterator[_FutileMatch]:
    for field, selector in (("namespaceSelector", matching.namespaces), ("objectSelector", matching.objects)):
        if selector is None:
            continue
        if key := first_contradiction(selector):
            text = f"asks of label {go_quoted(key)} what cannot be: no {_SELECTED[field]} is selected"
            yield _FutileMatch(matching.violation(text, field), certain=True)
        elif field == "namespaceSelector" and any(
            one.key == _NAME_LABEL and one.operator == DOES_NOT_EXIST for one in selector.match_expressions
        ):
            text = f"every namespace has the label {_NAME_LABEL}: no namespace is selected"
            yield _FutileMatch(matching.violation(text, field), certain=True)


_SELECTED = {"namespaceSelector": "namespace", "objectSelector": "object"}


def _futile_exclusions(
    policy: PolicyConfiguration[PolicySpec], context: LintContext
) -> Iterator[_FutileMatch]:
    constraints = policy.spec.match_constraints
    if constraints is None or not constraints.exclude_resource_rules:
        return
    whole = [rule for rule in constraints.exclude_resource_rules if not rule.resource_names]
    wanted = context.matched(constraints.resource_rules)
    if wanted and wanted <= context.matched(whole):
        text = "leaves out all that resourceRules match: the policy does nothing"
        certain = _is_builtin_only(constraints.resource_rules) or set(constraints.resource_rules) <= set(
            whole
        )
        yield _FutileMatch(Violation(policy, (*_CONSTRAINTS, "excludeResourceRules"), text), certain)


def _disjoint_bindings(
    binding: PolicyConfiguration[PolicyBindingSpec],
    policy: PolicyConfiguration[PolicySpec],
    context: LintContext,
) -> Iterator[_FutileMatch]:
    resources, constraints = binding.spec.match_resources, policy.spec.match_constraints
    if resources is None or constraints is None:
        return
    named = f"policy {go_quoted(policy.name)}"
    if resources.resource_rules:
        one, other = context.matched(resources.resource_rules), context.matched(constraints.resource_rules)
        if one and other and _without_versions(one).isdisjoint(_without_versions(other)):
            text = f"matches nothing that {named} matches, too: the binding does nothing"
            certain = _is_builtin_only(resources.resource_rules) or _is_builtin_only(
                constraints.resource_rules
            )
            yield _FutileMatch(Violation(binding, (*_RESOURCES, "resourceRules"), text), certain)
    for field, mine, theirs in (
        ("namespaceSelector", resources.namespace_selector, constraints.namespace_selector),
        ("objectSelector", resources.object_selector, constraints.object_selector),
    ):
        if mine is None or theirs is None or first_contradiction(mine) or first_contradiction(theirs):
            continue
        if key := first_contradiction(mine, theirs):
            text = f"selects nothing that {named} selects, too, by label {go_quoted(key)}"
            yield _FutileMatch(Violation(binding, (*_RESOURCES, field), text), certain=True)


def _bound_policies(
    context: LintContext,
) -> Iterator[tuple[PolicyConfiguration[PolicyBindingSpec], PolicyConfiguration[PolicySpec]]]:
    """Each binding with its policy, where both are there."""
    known = context.configurations
    for policies, bindings in (
        (known.mutating_policies, known.mutating_bindings),
        (known.validating_policies, known.validating_bindings),
    ):
        by_name: dict[str, PolicyConfiguration[PolicySpec]] = {policy.name: policy for policy in policies}
        for binding in bindings:
            if (policy := by_name.get(binding.spec.policy_name)) is not None:
                yield binding, policy


def _is_builtin_only(rules: Iterable[Rule]) -> bool:
    """Whether no CustomResourceDefinition can add to what rules match."""
    return all(group != "*" and "." not in group for rule in rules for group in rule.api_groups)


def _without_versions(matched: Iterable[tuple[ResourceType, str]]) -> frozenset[tuple[str, str, str, str]]:
    """Without versions, of which one can stand for another."""
    return frozenset(
        (
            storage_group(each.resource.group, each.resource.resource),
            each.resource.resource,
            each.subresource,
            operation,
        )
        for each, operation in matched
    )


def _futile_check(*, certain: bool) -> Callable[[LintContext], Iterator[Violation]]:
    def check(context: LintContext) -> Iterator[Violation]:
        return (one.violation for one in _futile_matches(context) if one.certain is certain)

    return check


MATCHES_NOTHING = LintRule(
    rule="matches-nothing",
    severity=Severity.ERROR,
    explanation="The API server accepts what matches no request at all, and what it should guard stays unguarded.",
    fix="Correct the spelling, or take it out.",
    check=_futile_check(certain=True),
)
MAY_MATCH_NOTHING = LintRule(
    rule="may-match-nothing",
    severity=Severity.WARNING,
    explanation="What no known kind fits matches nothing, unless the cluster has a kind of that name.",
    fix="Correct the spelling, or give the CustomResourceDefinition by --cluster.",
    check=_futile_check(certain=False),
)


def _find_ineffective(context: LintContext) -> Iterator[Violation]:
    for empty in (*context.configurations.mutating, *context.configurations.validating):
        if not empty.webhooks:
            yield Violation(empty, ("webhooks",), "has no webhooks: it does nothing")
    for owner in _configurations_and_policies(context):
        plugin = _PLUGINS.get(owner.kind)
        if plugin is not None and not context.runs(plugin):
            text = f"admission plugin {plugin} is switched off: it does nothing"
            yield Violation(owner, ("kind",), text)
    for matching in _match_criteria(context):
        if matching.namespaces is not None and not matching.namespaces.is_empty:
            yield from _find_idle_namespace_selectors(matching, context)
    for binding, policy in _bound_policies(context):
        yield from _find_idle_actions(binding, policy)


def _configurations_and_policies(context: LintContext) -> Iterator[Owner]:
    yield from context.configurations.mutating
    yield from context.configurations.validating
    yield from context.policies


def _find_idle_namespace_selectors(matching: _MatchCriteria, context: LintContext) -> Iterator[Violation]:
    matched = context.matched(matching.rules)
    in_no_namespace = (each for each, _ in matched)
    if matched and all(
        not each.namespaced and each.resource.resource != "namespaces" for each in in_no_namespace
    ):
        text = "all that the rules match is cluster-scoped, which no namespaceSelector leaves out"
        yield matching.violation(text, "namespaceSelector")


def _find_idle_actions(
    binding: PolicyConfiguration[PolicyBindingSpec], policy: PolicyConfiguration[PolicySpec]
) -> Iterator[Violation]:
    spec, bound = policy.spec, binding.spec
    if (
        isinstance(spec, ValidatingAdmissionPolicySpec)
        and isinstance(bound, ValidatingAdmissionPolicyBindingSpec)
        and not spec.validations
        and spec.fails_open
    ):
        text = f"policy {go_quoted(policy.name)} has no validations and fails open: no action is ever taken"
        yield Violation(binding, ("spec", "validationActions"), text)


WITHOUT_EFFECT = LintRule(
    rule="without-effect",
    severity=Severity.WARNING,
    explanation="What is configured and does nothing looks like protection, and is none.",
    fix="Switch on what it needs, or take it out.",
    check=_find_ineffective,
)


def _find_missing_params(context: LintContext) -> Iterator[Violation]:
    for binding, policy in _bound_policies(context):
        ref, kind = binding.spec.param_ref, policy.spec.param_kind
        if ref is None or kind is None or ref.parameter_not_found_action != "Allow":
            continue
        if context.is_described and not list(context.params(kind, ref)):
            text = f"no {kind.kind} here fits: policy {go_quoted(policy.name)} does nothing (Allow)"
            yield Violation(binding, ("spec", "paramRef"), text)


WITHOUT_PARAMS = LintRule(
    rule="params-not-found",
    severity=Severity.WARNING,
    explanation="With parameterNotFoundAction Allow, a policy whose parameters do not exist lets everything through.",
    fix="Create the object that paramRef names, or set parameterNotFoundAction to Deny.",
    check=_find_missing_params,
)


def _policies_with_bindings(
    context: LintContext,
) -> Iterator[
    tuple[Sequence[PolicyConfiguration[PolicySpec]], Sequence[PolicyConfiguration[PolicyBindingSpec]]]
]:
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


CERTAIN = (MATCHES_NOTHING, WITHOUT_EFFECT)
"""Practices by which what is told is so in every cluster."""
ALL = (
    *CERTAIN,
    MAY_MATCH_NOTHING,
    WITHOUT_PARAMS,
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
    context = LintContext(
        configurations, cluster, _NoOutageSimulator(frozenset(one.name for one in controllers)), 0.0
    )
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
