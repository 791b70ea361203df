"""Practices about which requests a webhook is called for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.custom_resources import types_of_definition
from pratique.practices.definitions import Breach, Practice, Severity
from pratique.virtual_resources import VIRTUAL_RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.practices.subjects import Subject
    from pratique.rules import Rule

_CONFIGURATIONS = frozenset(
    ("admissionregistration.k8s.io", resource)
    for resource in (
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
    )
)
"""What no webhook but static ones is asked about, so that a broken one can be repaired:
``k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules/rules.go``."""
_UNASKED_POLICIES = frozenset(pair for pair in _CONFIGURATIONS if "webhook" not in pair[1])
"""What no policy but static ones is asked about: ``k8s.io/apiserver/pkg/admission/plugin/policy/generic/plugin.go``."""


def _wildcards(subject: Subject) -> Iterator[Breach]:
    for hook in subject.hooks:
        for index, rule in enumerate(hook.webhook.rules):
            fields = [
                field
                for field, entries in (
                    ("operations", rule.operations),
                    ("apiGroups", rule.api_groups),
                    ("resources", [entry.partition("/")[0] for entry in rule.resources]),
                )
                if "*" in entries
            ]
            if fields:
                yield hook.breach(
                    f"rule {index + 1} has the wildcard * in {', '.join(fields)}",
                    "rules",
                    index,
                    fields[0],
                )


WILDCARDS = Practice(
    rule="wildcard-rules",
    severity=Severity.WARNING,
    explanation="A wildcard has the webhook called for what it was not made for: system components, and kinds to come.",
    fix="Name the operations, groups and resources that the webhook looks at.",
    check=_wildcards,
)


def _not_equivalent(subject: Subject) -> Iterator[Breach]:
    text = "requests for the same objects in another version or group pass by (matchPolicy is Exact)"
    for hook in subject.hooks:
        if hook.webhook.match_policy == "Exact":
            yield hook.breach(text, "matchPolicy")
    for policy in subject.policies:
        constraints = policy.spec.match_constraints
        if constraints is not None and constraints.match_policy == "Exact":
            yield Breach(policy, ("spec", "matchConstraints", "matchPolicy"), text)


NOT_EQUIVALENT = Practice(
    rule="no-match-policy-equivalent",
    severity=Severity.WARNING,
    explanation="With matchPolicy Exact, only the versions that the rules name are looked at.",
    fix="Set matchPolicy to Equivalent.",
    check=_not_equivalent,
)


def _read_only(subject: Subject) -> Iterator[Breach]:
    for hook in subject.hooks:
        unasked = VIRTUAL_RESOURCES if hook.owner.is_static else VIRTUAL_RESOURCES | _CONFIGURATIONS
        for index, rule in enumerate(hook.webhook.rules):
            if named := _named(rule, unasked):
                yield hook.breach(f"no webhook is ever asked about {named}", "rules", index, "resources")
    for policy in subject.policies:
        constraints = policy.spec.match_constraints
        unasked = VIRTUAL_RESOURCES if policy.is_static else VIRTUAL_RESOURCES | _UNASKED_POLICIES
        for index, rule in enumerate(constraints.resource_rules if constraints else ()):
            if named := _named(rule, unasked):
                path = ("spec", "matchConstraints", "resourceRules", index, "resources")
                yield Breach(policy, path, f"no policy is ever asked about {named}")


def _named(rule: Rule, resources: frozenset[tuple[str, str]]) -> str:
    """The resources, of those given, that a rule names without a wildcard."""
    written = {entry.partition("/")[0] for entry in rule.resources}
    pairs = sorted((group, resource) for group in set(rule.api_groups) for resource in written)
    return ", ".join(f"{resource}.{group}" for group, resource in pairs if (group, resource) in resources)


READ_ONLY = Practice(
    rule="read-only-kinds",
    severity=Severity.WARNING,
    explanation="Reviews of who may do what, and the configurations of admission itself, do not come to admission.",
    fix="Take them out of the rules.",
    check=_read_only,
)


def _custom(subject: Subject) -> Iterator[Breach]:
    definitions = subject.cluster.list("apiextensions.k8s.io", "customresourcedefinitions")
    pairs = frozenset(
        (each.resource.group, each.resource.resource)
        for definition in definitions
        for each in types_of_definition(definition)
    )
    for hook in subject.hooks:
        for index, rule in enumerate(hook.webhook.rules):
            if named := _named(rule, pairs):
                yield hook.breach(
                    f"{named}: a CustomResourceDefinition can validate and default by itself",
                    "rules",
                    index,
                    "resources",
                )


CUSTOM_RESOURCES = Practice(
    rule="webhook-for-custom-resources",
    severity=Severity.INFO,
    explanation="A CustomResourceDefinition validates and defaults its fields without a webhook.",
    fix="Write validation rules and defaults into the schema of the CustomResourceDefinition.",
    check=_custom,
)
