"""Rules about configurations that match nothing or change nothing.

Futile rules and selectors, constant expressions, unbound policies, and settings for controllers that are off.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

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
from pratique.lint.rules import LintContext, LintRule, Owner, Severity, Violation, run_rules

if TYPE_CHECKING:
    from pratique.cel.expressions import Expression
    from pratique.cel.policy_compiler import PolicyCompiler


def always_false(context: LintContext) -> Iterator[tuple[Owner, tuple[Step, ...]]]:
    """Yield the match conditions that are false for every request: their owner and path."""
    return ((owner, path) for owner, path, value in constant_conditions(context) if value is False)


def constant_conditions(context: LintContext) -> Iterator[tuple[Owner, tuple[Step, ...], bool]]:
    """Yield the match conditions with a constant value: their owner, path and value."""
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
    """Yield the indexes of a policy's validations that are true for every request.

    A validation that is always false denies everything that the policy matches, which may be intended.
    """
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
    """The value of an expression that does not depend on its variables; None if it does.

    The expression is evaluated without variables, so each of them is an error. Where ``||`` and ``&&`` absorb an error,
    they absorb any value.
    """
    value, _ = expression.evaluate_with_cost({})
    return value if isinstance(value, bool) else None


_NAME_LABEL = "kubernetes.io/metadata.name"
"""The label that the API server sets on every namespace."""
_CONSTRAINTS = ("spec", "matchConstraints")
_RESOURCES = ("spec", "matchResources")
_PLUGINS = {
    WebhookConfigurationKind.MUTATING: "MutatingAdmissionWebhook",
    WebhookConfigurationKind.VALIDATING: "ValidatingAdmissionWebhook",
    PolicyKind.MUTATING: "MutatingAdmissionPolicy",
    PolicyKind.VALIDATING: "ValidatingAdmissionPolicy",
}
"""The admission controllers that apply the configurations of each kind."""


class _MatchCriteria(NamedTuple):
    """The rules and selectors of a webhook, a policy or a binding."""

    owner: Owner
    path: tuple[Step, ...]
    rules: Sequence[Rule]
    rules_field: str
    namespaces: LabelSelector | None
    objects: LabelSelector | None

    def violation(self, text: str, *path: Step) -> Violation:
        return Violation(self.owner, (*self.path, *path), text)


class _FutileMatch(msgspec.Struct, frozen=True):
    """A rule, selector or condition that matches nothing."""

    violation: Violation
    certain: bool


def _match_criteria(context: LintContext) -> Iterator[_MatchCriteria]:
    for hook in context.hooks:
        webhook = hook.webhook
        path: tuple[Step, ...] = ("webhooks", hook.index)
        yield _MatchCriteria(
            hook.owner, path, webhook.rules, "rules", webhook.namespace_selector, webhook.object_selector
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
        yield _FutileMatch(
            Violation(owner, path, "is false for every request: nothing matches"), certain=True
        )


def _in_rules(matching: _MatchCriteria, context: LintContext) -> Iterator[_FutileMatch]:
    for index, rule in enumerate(matching.rules):
        for fault in context.futile_rules.find(rule):
            path = (
                matching.rules_field,
                index,
                fault.field,
                *(() if fault.index is None else (fault.index,)),
            )
            yield _FutileMatch(matching.violation(f"matches nothing: {fault.text}", *path), fault.certain)


def _in_selectors(matching: _MatchCriteria) -> Iterator[_FutileMatch]:
    for field, selector in (("namespaceSelector", matching.namespaces), ("objectSelector", matching.objects)):
        if selector is None:
            continue
        if key := first_contradiction(selector):
            text = f"contradicts itself about label {go_quoted(key)}: no {_SELECTED[field]} is selected"
            yield _FutileMatch(matching.violation(text, field), certain=True)
        elif field == "namespaceSelector" and any(
            requirement.key == _NAME_LABEL and requirement.operator == DOES_NOT_EXIST
            for requirement in selector.match_expressions
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
        text = "excludes everything that resourceRules match: the policy does nothing"
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
        bound, constrained = (
            context.matched(resources.resource_rules),
            context.matched(constraints.resource_rules),
        )
        if bound and constrained and _without_versions(bound).isdisjoint(_without_versions(constrained)):
            text = f"matches nothing that {named} matches: the binding does nothing"
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
            text = f"selects nothing that {named} selects, by label {go_quoted(key)}"
            yield _FutileMatch(Violation(binding, (*_RESOURCES, field), text), certain=True)


def _policies_with_bindings(
    context: LintContext,
) -> Iterator[
    tuple[Sequence[PolicyConfiguration[PolicySpec]], Sequence[PolicyConfiguration[PolicyBindingSpec]]]
]:
    """Yield the mutating policies with their bindings, then the validating ones."""
    known = context.configurations
    yield known.mutating_policies, known.mutating_bindings
    yield known.validating_policies, known.validating_bindings


def _bound_policies(
    context: LintContext,
) -> Iterator[tuple[PolicyConfiguration[PolicyBindingSpec], PolicyConfiguration[PolicySpec]]]:
    """Yield each binding with its policy, if both are configured."""
    for policies, bindings in _policies_with_bindings(context):
        by_name = {policy.name: policy for policy in policies}
        for binding in bindings:
            if (policy := by_name.get(binding.spec.policy_name)) is not None:
                yield binding, policy


def _is_builtin_only(rules: Iterable[Rule]) -> bool:
    """Whether rules name only groups to which no CustomResourceDefinition can add resources."""
    return all(group != "*" and "." not in group for rule in rules for group in rule.api_groups)


def _without_versions(matched: Iterable[tuple[ResourceType, str]]) -> frozenset[tuple[str, str, str, str]]:
    """Drop the versions, because equivalent versions match each other."""
    return frozenset(
        (
            storage_group(type_.resource.group, type_.resource.resource),
            type_.resource.resource,
            type_.subresource,
            operation,
        )
        for type_, operation in matched
    )


def _futile_check(*, certain: bool) -> Callable[[LintContext], Iterator[Violation]]:
    def check(context: LintContext) -> Iterator[Violation]:
        return (match.violation for match in _futile_matches(context) if match.certain is certain)

    return check


MATCHES_NOTHING = LintRule(
    name="matches-nothing",
    severity=Severity.ERROR,
    explanation="The API server accepts rules that match no request, so that nothing is checked.",
    fix="Correct the spelling, or remove it.",
    check=_futile_check(certain=True),
)
MAY_MATCH_NOTHING = LintRule(
    name="may-match-nothing",
    severity=Severity.WARNING,
    explanation="A rule that fits no known kind matches nothing, unless the cluster has a kind of that name.",
    fix="Correct the spelling, or supply the CustomResourceDefinition with --cluster.",
    check=_futile_check(certain=False),
)


def _find_ineffective(context: LintContext) -> Iterator[Violation]:
    for configuration in (*context.configurations.mutating, *context.configurations.validating):
        if not configuration.webhooks:
            yield Violation(configuration, ("webhooks",), "has no webhooks: it does nothing")
    for owner in context.owners:
        plugin = _PLUGINS.get(owner.kind)
        if plugin is not None and not context.runs(plugin):
            text = f"admission plugin {plugin} is disabled: it does nothing"
            yield Violation(owner, ("kind",), text)
    for matching in _match_criteria(context):
        if matching.namespaces is not None and not matching.namespaces.is_empty:
            yield from _find_idle_namespace_selectors(matching, context)
    for binding, policy in _bound_policies(context):
        yield from _find_idle_actions(binding, policy)


def _find_idle_namespace_selectors(matching: _MatchCriteria, context: LintContext) -> Iterator[Violation]:
    matched = context.matched(matching.rules)
    if matched and all(
        not type_.namespaced and type_.resource.resource != "namespaces" for type_, _ in matched
    ):
        text = "the rules match only cluster-scoped resources, which namespaceSelector does not exclude"
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
    name="without-effect",
    severity=Severity.WARNING,
    explanation="A configuration without effect looks like protection, but is none.",
    fix="Enable what it needs, or remove it.",
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
    name="params-not-found",
    severity=Severity.WARNING,
    explanation="With parameterNotFoundAction Allow, a policy whose parameters do not exist admits everything.",
    fix="Create the object that paramRef names, or set parameterNotFoundAction to Deny.",
    check=_find_missing_params,
)


def _find_unbound_policies(context: LintContext) -> Iterator[Violation]:
    for policies, bindings in _policies_with_bindings(context):
        bound = {binding.spec.policy_name for binding in bindings}
        for policy in policies:
            if policy.name not in bound:
                yield Violation(policy, ("metadata", "name"), "no binding here names it: it does nothing")


UNBOUND = LintRule(
    name="policy-unbound",
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
    name="binding-without-policy",
    severity=Severity.WARNING,
    explanation="A binding does nothing until a policy of its kind has the name that it gives.",
    fix="Correct policyName, or add the policy.",
    check=_find_bindings_without_policy,
)


def _find_constant_expressions(context: LintContext) -> Iterator[Violation]:
    for owner, path, value in constant_conditions(context):
        if value:
            yield Violation(owner, path, "is true for every request: it excludes nothing")
    for policy in context.policies:
        for index in always_true(policy):
            path = ("spec", "validations", index, "expression")
            yield Violation(policy, path, "is true for every request: it denies nothing")


CONSTANTS = LintRule(
    name="cel-cannot-match",
    severity=Severity.WARNING,
    explanation="A condition or validation with a constant result does nothing, or too much.",
    fix="Write an expression that depends on the request, or remove it.",
    check=_find_constant_expressions,
)


CERTAIN_RULES = (MATCHES_NOTHING, WITHOUT_EFFECT)
"""Rules whose findings hold in every cluster."""
EFFECT_RULES = (
    *CERTAIN_RULES,
    MAY_MATCH_NOTHING,
    WITHOUT_PARAMS,
    UNBOUND,
    WITHOUT_POLICY,
)
"""These and the rules that depend on the objects of the cluster, and on all configurations being present."""


class _NoOutageSimulator(msgspec.Struct, frozen=True):
    """A simulator that knows the enabled controllers and runs no requests."""

    controllers: frozenset[str]

    def reached(self, review: Review) -> frozenset[WebhookName]:
        del review
        return frozenset()

    def __call__(self, review: Review) -> OutageResult:
        del review
        return OutageResult()


def ineffective_configurations(
    configurations: Configurations,
    cluster: Cluster,
    controllers: Sequence[Controller],
    lint_rules: Collection[LintRule] = EFFECT_RULES,
) -> Iterator[str]:
    """Yield a warning for each configuration, policy or binding that has no effect.

    Comments that disable rules of ``pratique check`` apply here, too.
    """
    context = LintContext(
        configurations,
        cluster,
        _NoOutageSimulator(frozenset(controller.name for controller in controllers)),
        0.0,
    )
    for finding in run_rules(lint_rules, context):
        yield finding.line(Severity.WARNING)


def ineffective_controllers(
    configured: Collection[str], controllers: Sequence[Controller], cluster: Cluster
) -> Iterator[str]:
    """Yield a warning for each disabled controller with settings, and for each third-party rule that matches nothing.

    Args:
        configured: The names of the controllers that have settings.
        controllers: The enabled controllers.
        cluster: The cluster whose resources rules can match.
    """
    names = {controller.name for controller in controllers}
    for name in configured:
        if name not in names:
            yield f"warning: admission plugin {name} is disabled: its configuration does nothing"
    futile = RuleChecker(cluster.resources)
    for controller in controllers:
        if not controller.trusted:
            for rule in controller.rules:
                for fault in futile.find(rule):
                    yield f"warning: a rule of {controller.name} matches nothing: {fault.text}"
