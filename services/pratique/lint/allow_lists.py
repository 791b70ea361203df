"""Rules about allow-lists: that they restrict something, and that the fields which they allow can exist."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from pratique.admission.rules import EVERYTHING, Rule
from pratique.apimachinery.kinds import GroupVersionResource
from pratique.apimachinery.statuses import go_quoted
from pratique.cluster.api_resources import built_in_resources
from pratique.cluster.schemas import ListType, MapType, Scalar, Structure, Type, built_in_schema
from pratique.configuration.mutation_allow_lists import ANY, NEW_ITEM, pattern_steps, step_matches
from pratique.configuration.policy_references import PolicyReference, PolicyReferenceKind
from pratique.lint.exceptions import missing_policy
from pratique.lint.rules import LintContext, LintRule, Severity, Violation


def _find_unknown(context: LintContext) -> Iterator[Violation]:
    for allow_list in context.configurations.allow_lists:
        for index, policy in enumerate(allow_list.spec.policies):
            if missing := missing_policy(policy, context):
                yield Violation(allow_list, ("spec", "policies", index), f"{missing}: it restricts nothing")


WITHOUT_POLICY = LintRule(
    name="allow-list-without-policy",
    severity=Severity.WARNING,
    explanation="If an allow-list names a policy wrongly, the policy that it was meant for may change every field.",
    fix="Correct the name, or remove the allow-list.",
    check=_find_unknown,
)


def _find_impossible(context: LintContext) -> Iterator[Violation]:
    for allow_list in context.configurations.allow_lists:
        kinds = _kinds(allow_list.spec.policies, context)
        for index, pattern in enumerate(allow_list.spec.fields):
            if kinds and not any(_may_exist(schema, pattern_steps(pattern)) for schema in kinds):
                text = f"no object that it restricts has a field {go_quoted(pattern)}: it allows nothing"
                yield Violation(allow_list, ("spec", "fields", index), text)


IMPOSSIBLE = LintRule(
    name="allow-list-without-field",
    severity=Severity.WARNING,
    explanation="A field that no object has is misspelled: the one that was meant may not be changed.",
    fix="Write the JSON Pointer of the field, with * for the items of a list.",
    check=_find_impossible,
)


def _kinds(policies: Sequence[PolicyReference], context: LintContext) -> list[Structure]:
    """Return the schemas of what policies and webhooks see; none if it is not certain."""
    rules = [rule for policy in policies for rule in _rules(policy, context)]
    found = [_schema(*names) for rule in rules for names in _resources(rule)]
    return [schema for schema in found if schema is not None] if None not in found else []


def _rules(policy: PolicyReference, context: LintContext) -> Sequence[Rule]:
    """Return the rules of a webhook or policy; those of controllers do not say what they change."""
    found = context.configurations
    if policy.kind == PolicyReferenceKind.MUTATING_WEBHOOK:
        return [
            rule
            for configuration in found.mutating
            for hook in configuration.webhooks
            if (configuration.name, hook.name) == (policy.name, policy.webhook)
            for rule in hook.rules
        ]
    if policy.kind == PolicyReferenceKind.CONTROLLER:
        return [EVERYTHING]
    specs = [one.spec for one in found.mutating_policies if one.name == policy.name]
    return [
        rule for spec in specs if spec.match_constraints for rule in spec.match_constraints.resource_rules
    ]


def _resources(rule: Rule) -> Iterator[tuple[str, str, str]]:
    """Yield group, version and resource of all that a rule names."""
    return itertools.product(rule.api_groups, rule.api_versions, rule.resources)


def _schema(group: str, version: str, resource: str) -> Structure | None:
    """Return the schema of a built-in resource; None for wildcards, subresources and custom resources."""
    found = built_in_resources().for_resource(GroupVersionResource(group, version, resource))
    return None if found is None else built_in_schema(found.kind)


def _may_exist(schema: Type, steps: Sequence[str]) -> bool:
    """Return whether a pattern can match something in a value of a type."""
    if not steps:
        return True
    step, rest = steps[0], steps[1:]
    match schema:
        case ListType(items=items):
            return step == NEW_ITEM or (step == ANY and _may_exist(items, rest))
        case MapType(values=values):
            return _may_exist(values, rest)
        case Structure():
            named = [child for name, child in schema.fields.items() if step_matches(step, name)]
            return schema.open or any(_may_exist(child, rest) for child in named)
        case _:
            return schema is Scalar.ANY
