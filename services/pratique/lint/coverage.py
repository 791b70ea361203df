"""Practices about requests that change the same thing by another way, and about what nobody enforces meanwhile."""

from __future__ import annotations

import functools
import itertools
import re
from typing import TYPE_CHECKING, NamedTuple

from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import member
from pratique.apimachinery.urls import parse_url
from pratique.configuration.policies import ValidatingSpec
from pratique.configuration.settings import ChainSettings
from pratique.hosting.catalogue import load_catalogue
from pratique.lint.outage_simulation import known_workloads
from pratique.lint.rules import Breach, Practice, Severity
from pratique.manifests.pod_templates import items, mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pratique.admission.controllers import Controller
    from pratique.admission.rules import Rule
    from pratique.apimachinery.json_values import JSONObject
    from pratique.cluster.store import Cluster
    from pratique.configuration.policies import Configured, PolicySpec
    from pratique.configuration.webhooks import ClientConfig
    from pratique.lint.rules import Hook, Subject

_CONTAINER_CHANGES = ("pods/ephemeralcontainers", "pods/resize")
"""By the first, a running Pod gets another container; by the second, its containers other resources. Neither is an
UPDATE of ``pods``: ``pkg/registry/core/pod/storage/storage.go``."""
_SCALED = re.compile(r"\bspec\.\??replicas\b")


def _uncovered(subject: Subject) -> Iterator[Breach]:
    for hook in subject.hooks:
        if missing := _missing(hook.webhook.rules, subject, mutates=hook.mutates):
            yield hook.breach(_passing(missing), "rules")
    for policy in subject.policies:
        constraints = policy.spec.match_constraints
        rules = constraints.resource_rules if constraints else ()
        mutates = not isinstance(policy.spec, ValidatingSpec)
        if missing := _missing(rules, subject, mutates=mutates):
            yield Breach(policy, ("spec", "matchConstraints", "resourceRules"), _passing(missing))


def _missing(rules: Iterable[Rule], subject: Subject, *, mutates: bool) -> list[str]:
    """The requests for Pods that pass by.

    What validates has to see them all. What mutates may well want new Pods alone.
    """
    matched = _matched(rules, subject)
    asked = {"UPDATE"} if mutates else {"CREATE", "UPDATE"}
    if not any(("", "pods", one) in matched for one in asked):
        return []
    return [each for each in _CONTAINER_CHANGES if ("", each, "UPDATE") not in matched]


def _matched(rules: Iterable[Rule], subject: Subject) -> frozenset[tuple[str, str, str]]:
    """Group, resource with its subresource, and operation, of all that rules match."""
    return frozenset(
        (each.resource.group, f"{each.resource.resource}/{each.subresource}".rstrip("/"), operation)
        for each, operation in subject.matched(rules)
    )


def _passing(missing: list[str]) -> str:
    return f"sees Pods, but not how {' and '.join(missing)} change their containers"


UNCOVERED = Practice(
    rule="pod-subresources-uncovered",
    severity=Severity.WARNING,
    explanation="Ephemeral containers and resizes change running Pods by subresources, which rules for pods leave out.",
    fix="Add pods/ephemeralcontainers and pods/resize to the resources of the rule, with operation UPDATE.",
    check=_uncovered,
)


def _unscaled(subject: Subject) -> Iterator[Breach]:
    for policy in subject.policies:
        if not _SCALED.search(" ".join(_expressions(policy))):
            continue
        constraints = policy.spec.match_constraints
        matched = _matched(constraints.resource_rules if constraints else (), subject)
        missing = sorted(
            f"{resource}/scale"
            for group, resource, operation in matched
            if operation in {"CREATE", "UPDATE"}
            and (group, f"{resource}/scale", "UPDATE") not in matched
            and (group, f"{resource}/scale") in subject.scales
        )
        if missing:
            text = f"looks at replicas, but not at {', '.join(dict.fromkeys(missing))}, by which they change, too"
            yield Breach(policy, ("spec", "matchConstraints", "resourceRules"), text)


def _expressions(policy: Configured[PolicySpec]) -> Iterator[str]:
    spec = policy.spec
    yield from (variable.expression for variable in spec.variables)
    if isinstance(spec, ValidatingSpec):
        yield from (validation.expression for validation in spec.validations)


UNSCALED = Practice(
    rule="scale-uncovered",
    severity=Severity.INFO,
    explanation="kubectl scale and autoscalers change replicas by the subresource scale, whose object is a Scale.",
    fix="Add the subresource scale to the resources of the rule; a Scale has spec.replicas, and no template.",
    check=_unscaled,
)


class _FrontDoor(NamedTuple):
    """A front door of Pratique behind a webhook."""

    workload: str
    controllers: tuple[Controller, ...]
    """Its chain, as its flags say."""


def _enforcing(subject: Subject) -> Iterator[Breach]:
    for hook in subject.mutating:
        if hook.fails_closed or _path(hook.webhook.client_config) not in {"/mutate", "/admit"}:
            continue
        for door in _front_doors(hook, subject.cluster):
            lost = [one.name for one in door.controllers if one.guards and _meets(one, hook, subject)]
            if lost:
                text = (
                    f"{', '.join(lost)} of {door.workload} refuse in the mutating phase alone:"
                    " while it does not answer, everything gets past them"
                )
                yield hook.breach(text, "failurePolicy")


def _path(config: ClientConfig) -> str:
    return (config.service.path or "") if config.service else parse_url(config.url or "").path


def _meets(controller: Controller, hook: Hook, subject: Subject) -> bool:
    return not subject.matched(controller.rules).isdisjoint(subject.matched(hook.webhook.rules))


def _front_doors(hook: Hook, cluster: Cluster) -> Iterator[_FrontDoor]:
    if hook.backend is None:
        return
    for workload in known_workloads(hook.backend, cluster):
        for container in items(mapping(workload, "spec", "template"), "spec", "containers"):
            arguments = [str(each) for each in (*items(container, "command"), *items(container, "args"))]
            serves = [two for two in itertools.pairwise(arguments) if two[0] == "serve"]
            if not any(service in {"frontdoor", "all"} for _, service in serves):
                continue
            written = _variables(container, hook.backend.namespace, cluster) | _flags(arguments)
            named = f'{workload["kind"]} "{workload["metadata"]["name"]}"'
            yield _FrontDoor(named, _selected(written))


def _variables(container: JSONObject, namespace: str, cluster: Cluster) -> dict[str, str]:
    """The environment variables of a container, as far as they are written down, by the flags that they set."""
    found: dict[str, str] = {}
    for source in items(container, "envFrom"):
        name = member(source, "configMapRef", "name")
        data = mapping(cluster.get("", "configmaps", str(name), namespace), "data")
        found |= {str(member(source, "prefix") or "") + key: str(value) for key, value in data.items()}
    found |= {str(member(each, "name")): str(member(each, "value") or "") for each in items(container, "env")}
    prefix = "PRATIQUE_"
    return {
        key.removeprefix(prefix).lower().replace("_", "-"): value
        for key, value in found.items()
        if key.startswith(prefix)
    }


def _flags(arguments: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for index, argument in enumerate(arguments):
        if argument.startswith("--"):
            name, equals, value = argument.removeprefix("--").partition("=")
            found[name] = value if equals else "".join(arguments[index + 1 : index + 2])
    return found


def _selected(flags: Mapping[str, str]) -> tuple[Controller, ...]:
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
        return ()  # it does not start with such flags


_catalogue = functools.cache(load_catalogue)

ENFORCING_FAILS_OPEN = Practice(
    rule="enforcing-mutation-fails-open",
    severity=Severity.WARNING,
    explanation="Some controllers, such as NodeRestriction, refuse in the mutating phase, with no check after them.",
    fix="Set failurePolicy to Fail, or give those controllers a webhook of their own that fails closed.",
    check=_enforcing,
)
