"""Rules about what can match nothing, or changes nothing when it does."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from pratique.apimachinery.selectors import DOES_NOT_EXIST, contradiction
from pratique.apimachinery.statuses import go_quoted
from pratique.cluster.api_resources import storage_group
from pratique.configuration.policies import PolicyKind, ValidatingBindingSpec, ValidatingSpec
from pratique.configuration.webhooks import ConfigurationKind
from pratique.lint.rules import Breach, Practice, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pratique.admission.rules import Rule
    from pratique.apimachinery.field_errors import Step
    from pratique.apimachinery.kinds import ResourceType
    from pratique.apimachinery.selectors import LabelSelector
    from pratique.cel.expressions import Expression
    from pratique.cel.policy_environments import PolicyCompiler
    from pratique.configuration.policies import BindingSpec, Configured, MatchResources, PolicySpec
    from pratique.lint.rules import Owner, Subject


def always_false(subject: Subject) -> Iterator[tuple[Owner, tuple[Step, ...]]]:
    """Where a match condition is false of every request."""
    return ((owner, path) for owner, path, value in constant_conditions(subject) if value is False)


def constant_conditions(subject: Subject) -> Iterator[tuple[Owner, tuple[Step, ...], bool]]:
    """Where match conditions are constant, and what they are then."""
    for hook in subject.hooks:
        for index, condition in enumerate(hook.webhook.match_conditions):
            from pratique.cel.environments import MATCH_CONDITIONS  # noqa: PLC0415 - brings CEL
            from pratique.cel.expressions import compile_expression  # noqa: PLC0415 - likewise

            value = _constant(compile_expression(condition.expression.strip(), MATCH_CONDITIONS, "bool"))
            if value is not None:
                yield hook.owner, ("webhooks", hook.index, "matchConditions", index, "expression"), value
    for policy in subject.policies:
        for index, condition in enumerate(policy.spec.match_conditions):
            expression = _compiler(policy.spec).compile(condition.expression, "bool", has_variables=False)
            value = _constant(expression)
            if value is not None:
                yield policy, ("spec", "matchConditions", index, "expression"), value


def always_true(policy: Configured[PolicySpec]) -> Iterator[int]:
    """Which validations of a policy are true of every request.

    One that is always false says that all that is matched is refused, which may well be meant.
    """
    from pratique.configuration.policies import ValidatingSpec  # noqa: PLC0415 - msgspec, needed here alone

    if not isinstance(policy.spec, ValidatingSpec):
        return
    compiler = _compiler(policy.spec)
    for index, validation in enumerate(policy.spec.validations):
        if _constant(compiler.compile(validation.expression, "bool")):
            yield index


def _compiler(spec: PolicySpec) -> PolicyCompiler:
    from pratique.cel.policy_environments import PolicyCompiler  # noqa: PLC0415 - brings CEL

    compiler = PolicyCompiler(spec.param_kind is not None, None)
    for variable in spec.variables:
        compiler.add_variable(variable.name, variable.expression)
    return compiler


def _constant(expression: Expression) -> bool | None:
    """The value that an expression has whatever it is shown: the one that it has where it is shown nothing.

    Every variable is an error then, and what absorbs an error, as ``||`` and ``&&`` do, absorbs any value.
    """
    value, _ = expression.measure({})
    return value if isinstance(value, bool) else None


_NAME_LABEL = "kubernetes.io/metadata.name"
"""The label that every namespace has."""
_CONSTRAINTS = ("spec", "matchConstraints")
_RESOURCES = ("spec", "matchResources")
_PLUGINS = {
    ConfigurationKind.MUTATING: "MutatingAdmissionWebhook",
    ConfigurationKind.VALIDATING: "ValidatingAdmissionWebhook",
    PolicyKind.MUTATING: "MutatingAdmissionPolicy",
    PolicyKind.VALIDATING: "ValidatingAdmissionPolicy",
}
"""The admission controllers that go by the configurations of each kind."""


class _Matching(NamedTuple):
    """One place that says which requests are meant."""

    owner: Owner
    path: tuple[Step, ...]
    rules: Sequence[Rule]
    rules_field: str
    namespaces: LabelSelector | None
    objects: LabelSelector | None

    def breach(self, text: str, *path: Step) -> Breach:
        return Breach(self.owner, (*self.path, *path), text)


@dataclasses.dataclass(frozen=True, slots=True)
class _Futile:
    """Something that matches nothing."""

    breach: Breach
    certain: bool


def _matchings(subject: Subject) -> Iterator[_Matching]:
    for hook in subject.hooks:
        one = hook.webhook
        path: tuple[Step, ...] = ("webhooks", hook.index)
        yield _Matching(hook.owner, path, one.rules, "rules", one.namespace_selector, one.object_selector)
    for policy in subject.policies:
        if policy.spec.match_constraints is not None:
            yield _of_resources(policy, policy.spec.match_constraints, _CONSTRAINTS)
    for binding in subject.bindings:
        if binding.spec.match_resources is not None:
            yield _of_resources(binding, binding.spec.match_resources, _RESOURCES)


def _of_resources(owner: Owner, given: MatchResources, path: tuple[Step, ...]) -> _Matching:
    selectors = given.namespace_selector, given.object_selector
    return _Matching(owner, path, given.resource_rules, "resourceRules", *selectors)


def _futile(subject: Subject) -> Iterator[_Futile]:
    for matching in _matchings(subject):
        yield from _in_rules(matching, subject)
        yield from _in_selectors(matching)
    for policy in subject.policies:
        yield from _excluded(policy, subject)
    for binding, policy in _bound(subject):
        yield from _disjoint(binding, policy, subject)
    for hook in subject.hooks:
        if not hook.webhook.rules:
            yield _Futile(hook.breach("has no rules: it is never called", "rules"), certain=True)
    for owner, path in always_false(subject):
        yield _Futile(Breach(owner, path, "is false of every request: nothing matches"), certain=True)


def _in_rules(matching: _Matching, subject: Subject) -> Iterator[_Futile]:
    for index, rule in enumerate(matching.rules):
        for one in subject.futile_rules.find(rule):
            path = (matching.rules_field, index, one.field, *(() if one.index is None else (one.index,)))
            yield _Futile(matching.breach(f"matches nothing: {one.text}", *path), one.certain)


def _in_selectors(matching: _Matching) -> Iterator[_Futile]:
    for field, selector in (("namespaceSelector", matching.namespaces), ("objectSelector", matching.objects)):
        if selector is None:
            continue
        if key := contradiction(selector):
            text = f"asks of label {go_quoted(key)} what cannot be: no {_SELECTED[field]} is selected"
            yield _Futile(matching.breach(text, field), certain=True)
        elif field == "namespaceSelector" and any(
            one.key == _NAME_LABEL and one.operator == DOES_NOT_EXIST for one in selector.match_expressions
        ):
            text = f"every namespace has the label {_NAME_LABEL}: no namespace is selected"
            yield _Futile(matching.breach(text, field), certain=True)


_SELECTED = {"namespaceSelector": "namespace", "objectSelector": "object"}


def _excluded(policy: Configured[PolicySpec], subject: Subject) -> Iterator[_Futile]:
    constraints = policy.spec.match_constraints
    if constraints is None or not constraints.exclude_resource_rules:
        return
    whole = [rule for rule in constraints.exclude_resource_rules if not rule.resource_names]
    wanted = subject.matched(constraints.resource_rules)
    if wanted and wanted <= subject.matched(whole):
        text = "leaves out all that resourceRules match: the policy does nothing"
        certain = _is_closed(constraints.resource_rules) or set(constraints.resource_rules) <= set(whole)
        yield _Futile(Breach(policy, (*_CONSTRAINTS, "excludeResourceRules"), text), certain)


def _disjoint(
    binding: Configured[BindingSpec], policy: Configured[PolicySpec], subject: Subject
) -> Iterator[_Futile]:
    resources, constraints = binding.spec.match_resources, policy.spec.match_constraints
    if resources is None or constraints is None:
        return
    named = f"policy {go_quoted(policy.name)}"
    if resources.resource_rules:
        one, other = subject.matched(resources.resource_rules), subject.matched(constraints.resource_rules)
        if one and other and _stored(one).isdisjoint(_stored(other)):
            text = f"matches nothing that {named} matches, too: the binding does nothing"
            certain = _is_closed(resources.resource_rules) or _is_closed(constraints.resource_rules)
            yield _Futile(Breach(binding, (*_RESOURCES, "resourceRules"), text), certain)
    for field, mine, theirs in (
        ("namespaceSelector", resources.namespace_selector, constraints.namespace_selector),
        ("objectSelector", resources.object_selector, constraints.object_selector),
    ):
        if mine is None or theirs is None or contradiction(mine) or contradiction(theirs):
            continue
        if key := contradiction(mine, theirs):
            text = f"selects nothing that {named} selects, too, by label {go_quoted(key)}"
            yield _Futile(Breach(binding, (*_RESOURCES, field), text), certain=True)


def _bound(subject: Subject) -> Iterator[tuple[Configured[BindingSpec], Configured[PolicySpec]]]:
    """Each binding with its policy, where both are there."""
    known = subject.configurations
    for policies, bindings in (
        (known.mutating_policies, known.mutating_bindings),
        (known.validating_policies, known.validating_bindings),
    ):
        by_name: dict[str, Configured[PolicySpec]] = {policy.name: policy for policy in policies}
        for binding in bindings:
            if (policy := by_name.get(binding.spec.policy_name)) is not None:
                yield binding, policy


def _is_closed(rules: Iterable[Rule]) -> bool:
    """Whether no CustomResourceDefinition can add to what rules match."""
    return all(group != "*" and "." not in group for rule in rules for group in rule.api_groups)


def _stored(matched: Iterable[tuple[ResourceType, str]]) -> frozenset[tuple[str, str, str, str]]:
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


def _of_certainty(*, certain: bool) -> Callable[[Subject], Iterator[Breach]]:
    def check(subject: Subject) -> Iterator[Breach]:
        return (one.breach for one in _futile(subject) if one.certain is certain)

    return check


MATCHES_NOTHING = Practice(
    rule="matches-nothing",
    severity=Severity.ERROR,
    explanation="The API server accepts what matches no request at all, and what it should guard stays unguarded.",
    fix="Correct the spelling, or take it out.",
    check=_of_certainty(certain=True),
)
MAY_MATCH_NOTHING = Practice(
    rule="may-match-nothing",
    severity=Severity.WARNING,
    explanation="What no known kind fits matches nothing, unless the cluster has a kind of that name.",
    fix="Correct the spelling, or give the CustomResourceDefinition by --cluster.",
    check=_of_certainty(certain=False),
)


def _without_effect(subject: Subject) -> Iterator[Breach]:
    for empty in (*subject.configurations.mutating, *subject.configurations.validating):
        if not empty.webhooks:
            yield Breach(empty, ("webhooks",), "has no webhooks: it does nothing")
    for owner in _owners(subject):
        plugin = _PLUGINS.get(owner.kind)
        if plugin is not None and not subject.runs(plugin):
            text = f"admission plugin {plugin} is switched off: it does nothing"
            yield Breach(owner, ("kind",), text)
    for matching in _matchings(subject):
        if matching.namespaces is not None and not matching.namespaces.is_empty:
            yield from _without_namespaces(matching, subject)
    for binding, policy in _bound(subject):
        yield from _idle_actions(binding, policy)


def _owners(subject: Subject) -> Iterator[Owner]:
    yield from subject.configurations.mutating
    yield from subject.configurations.validating
    yield from subject.policies


def _without_namespaces(matching: _Matching, subject: Subject) -> Iterator[Breach]:
    matched = subject.matched(matching.rules)
    in_no_namespace = (each for each, _ in matched)
    if matched and all(
        not each.namespaced and each.resource.resource != "namespaces" for each in in_no_namespace
    ):
        text = "all that the rules match is cluster-scoped, which no namespaceSelector leaves out"
        yield matching.breach(text, "namespaceSelector")


def _idle_actions(binding: Configured[BindingSpec], policy: Configured[PolicySpec]) -> Iterator[Breach]:
    spec, bound = policy.spec, binding.spec
    if (
        isinstance(spec, ValidatingSpec)
        and isinstance(bound, ValidatingBindingSpec)
        and not spec.validations
        and spec.fails_open
    ):
        text = f"policy {go_quoted(policy.name)} has no validations and fails open: no action is ever taken"
        yield Breach(binding, ("spec", "validationActions"), text)


WITHOUT_EFFECT = Practice(
    rule="without-effect",
    severity=Severity.WARNING,
    explanation="What is configured and does nothing looks like protection, and is none.",
    fix="Switch on what it needs, or take it out.",
    check=_without_effect,
)


def _without_params(subject: Subject) -> Iterator[Breach]:
    for binding, policy in _bound(subject):
        ref, kind = binding.spec.param_ref, policy.spec.param_kind
        if ref is None or kind is None or ref.parameter_not_found_action != "Allow":
            continue
        if subject.is_described and not list(subject.params(kind, ref)):
            text = f"no {kind.kind} here fits: policy {go_quoted(policy.name)} does nothing (Allow)"
            yield Breach(binding, ("spec", "paramRef"), text)


WITHOUT_PARAMS = Practice(
    rule="params-not-found",
    severity=Severity.WARNING,
    explanation="With parameterNotFoundAction Allow, a policy whose parameters do not exist lets everything through.",
    fix="Create the object that paramRef names, or set parameterNotFoundAction to Deny.",
    check=_without_params,
)
