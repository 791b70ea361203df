"""Rules about requests that get past a webhook or policy.

Subresources that change the same object, and controllers that enforce only in the mutating phase.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from pratique.admission.controllers import Controller
from pratique.admission.rules import Rule
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSONObject, list_at, mapping_at, member
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.urls import parse_url
from pratique.cluster.store import Cluster
from pratique.configuration.admissionregistration import (
    ClientConfig,
    PolicyConfiguration,
    PolicySpec,
    ValidatingAdmissionPolicySpec,
)
from pratique.configuration.settings import ChainSettings
from pratique.hosting.catalogue import load_catalogue
from pratique.lint.outage_simulation import known_workloads
from pratique.lint.rules import ConfiguredWebhook, LintContext, LintRule, Severity, Violation

_CONTAINER_CHANGES = ("pods/ephemeralcontainers", "pods/resize")
"""The first adds a container to a running Pod; the second changes the resources of its containers. Neither is an UPDATE
of ``pods``: ``pkg/registry/core/pod/storage/storage.go``."""
_SCALED = pattern(r"\bspec\.\??replicas\b")


def _find_uncovered_subresources(context: LintContext) -> Iterator[Violation]:
    for hook in context.hooks:
        if missing := _uncovered_subresources(hook.webhook.rules, context, mutates=hook.mutates):
            yield hook.violation(_uncovered_text(missing), "rules")
    for policy in context.policies:
        constraints = policy.spec.match_constraints
        rules = constraints.resource_rules if constraints else ()
        mutates = not isinstance(policy.spec, ValidatingAdmissionPolicySpec)
        if missing := _uncovered_subresources(rules, context, mutates=mutates):
            yield Violation(policy, ("spec", "matchConstraints", "resourceRules"), _uncovered_text(missing))


def _uncovered_subresources(rules: Iterable[Rule], context: LintContext, *, mutates: bool) -> list[str]:
    """List the subresources by which a Pod's containers change unseen.

    A validator has to see all of them. A mutator may be meant for new Pods only.
    """
    matched = _matched_requests(rules, context)
    operations = {"UPDATE"} if mutates else {"CREATE", "UPDATE"}
    if not any(("", "pods", operation) in matched for operation in operations):
        return []
    return [resource for resource in _CONTAINER_CHANGES if ("", resource, "UPDATE") not in matched]


def _matched_requests(rules: Iterable[Rule], context: LintContext) -> frozenset[tuple[str, str, str]]:
    """Expand rules to triples of group, resource with subresource, and operation."""
    return frozenset(
        (type_.resource.group, f"{type_.resource.resource}/{type_.subresource}".rstrip("/"), operation)
        for type_, operation in context.matched(rules)
    )


def _uncovered_text(missing: list[str]) -> str:
    return f"matches Pods, but not {' and '.join(missing)}, which change their containers"


UNCOVERED = LintRule(
    name="pod-subresources-uncovered",
    severity=Severity.WARNING,
    explanation="Ephemeral containers and resizes change running Pods by subresources that rules for pods miss.",
    fix="Add pods/ephemeralcontainers and pods/resize to the resources of the rule, with operation UPDATE.",
    check=_find_uncovered_subresources,
)


def _find_uncovered_scales(context: LintContext) -> Iterator[Violation]:
    for policy in context.policies:
        if not _SCALED.search(" ".join(_expressions(policy))):
            continue
        constraints = policy.spec.match_constraints
        matched = _matched_requests(constraints.resource_rules if constraints else (), context)
        missing = sorted(
            f"{resource}/scale"
            for group, resource, operation in matched
            if operation in {"CREATE", "UPDATE"}
            and (group, f"{resource}/scale", "UPDATE") not in matched
            and (group, f"{resource}/scale") in context.scales
        )
        if missing:
            text = f"checks replicas, but not {', '.join(dict.fromkeys(missing))}, through which they can also change"
            yield Violation(policy, ("spec", "matchConstraints", "resourceRules"), text)


def _expressions(policy: PolicyConfiguration[PolicySpec]) -> Iterator[str]:
    spec = policy.spec
    yield from (variable.expression for variable in spec.variables)
    if isinstance(spec, ValidatingAdmissionPolicySpec):
        yield from (validation.expression for validation in spec.validations)


UNSCALED = LintRule(
    name="scale-uncovered",
    severity=Severity.INFO,
    explanation="kubectl scale and autoscalers change replicas through the subresource scale, whose object is a Scale.",
    fix="Add the subresource scale to the resources of the rule; a Scale has spec.replicas, but no template.",
    check=_find_uncovered_scales,
)


class _FrontDoor(NamedTuple):
    """A Pratique front door that serves a webhook."""

    workload: str
    controllers: tuple[Controller, ...]
    """The controllers of its chain, as selected by its flags."""


def _find_enforcing_mutations(context: LintContext) -> Iterator[Violation]:
    for hook in context.mutating:
        if hook.fails_closed or _url_path(hook.webhook.client_config) not in {"/mutate", "/admit"}:
            continue
        for front_door in _front_doors(hook, context.cluster):
            bypassed = [
                controller.name
                for controller in front_door.controllers
                if controller.denies_in_mutate and _shares_requests(controller, hook, context)
            ]
            if bypassed:
                text = (
                    f"{', '.join(bypassed)} of {front_door.workload} deny only in the mutating phase:"
                    " while it does not answer, nothing is denied"
                )
                yield hook.violation(text, "failurePolicy")


def _url_path(config: ClientConfig) -> str:
    return (config.service.path or "") if config.service else parse_url(config.url or "").path


def _shares_requests(controller: Controller, hook: ConfiguredWebhook, context: LintContext) -> bool:
    return not context.matched(controller.rules).isdisjoint(context.matched(hook.webhook.rules))


def _front_doors(hook: ConfiguredWebhook, cluster: Cluster) -> Iterator[_FrontDoor]:
    if hook.backend is None:
        return
    for workload in known_workloads(hook.backend, cluster):
        for container in list_at(mapping_at(workload, "spec", "template"), "spec", "containers"):
            arguments = [
                str(argument) for argument in (*list_at(container, "command"), *list_at(container, "args"))
            ]
            serves = [pair for pair in itertools.pairwise(arguments) if pair[0] == "serve"]
            if not any(service in {"frontdoor", "all"} for _, service in serves):
                continue
            written = _flags_from_environment(
                container, hook.backend.namespace, cluster
            ) | _flags_from_arguments(arguments)
            name = f'{workload["kind"]} "{workload["metadata"]["name"]}"'
            yield _FrontDoor(name, _selected_controllers(written))


def _flags_from_environment(container: JSONObject, namespace: str, cluster: Cluster) -> dict[str, str]:
    """Map each flag that the environment of a container sets to its value, as far as manifests give it."""
    found: dict[str, str] = {}
    for source in list_at(container, "envFrom"):
        name = member(source, "configMapRef", "name")
        data = mapping_at(cluster.get("", "configmaps", str(name), namespace), "data")
        found |= {str(member(source, "prefix") or "") + key: str(value) for key, value in data.items()}
    found |= {
        str(member(variable, "name")): str(member(variable, "value") or "")
        for variable in list_at(container, "env")
    }
    prefix = "PRATIQUE_"
    return {
        key.removeprefix(prefix).lower().replace("_", "-"): value
        for key, value in found.items()
        if key.startswith(prefix)
    }


def _flags_from_arguments(arguments: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for index, argument in enumerate(arguments):
        if argument.startswith("--"):
            name, equals, value = argument.removeprefix("--").partition("=")
            found[name] = value if equals else "".join(arguments[index + 1 : index + 2])
    return found


def _selected_controllers(flags: Mapping[str, str]) -> tuple[Controller, ...]:
    def names(flag: str) -> tuple[str, ...]:
        return tuple(name.strip() for name in flags.get(flag, "").split(",") if name.strip())

    settings = ChainSettings(
        enable_admission_plugins=names("enable-admission-plugins"),
        disable_admission_plugins=names("disable-admission-plugins"),
        admission_control=names("admission-control") or None,
    )
    try:
        return _catalogue().select(settings)
    except ConfigurationError:
        return ()  # a front door with such flags does not start


_catalogue = functools.cache(load_catalogue)

ENFORCING_FAILS_OPEN = LintRule(
    name="enforcing-mutation-fails-open",
    severity=Severity.WARNING,
    explanation="Some controllers, such as NodeRestriction, deny in the mutating phase, and nothing checks later.",
    fix="Set failurePolicy to Fail, or give those controllers their own webhook that fails closed.",
    check=_find_enforcing_mutations,
)
