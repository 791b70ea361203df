"""The checks of a live installation: lint rules for its webhooks, and rules for what serves them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from pratique.apimachinery.json_values import JSON, JSONObject, list_at, mapping_at, member
from pratique.apimachinery.prepared_types import prepared
from pratique.apimachinery.selectors import LabelSelector, compile_selector
from pratique.apimachinery.statuses import go_quoted
from pratique.configuration.settings import ChainSettings
from pratique.lint.registry import LINT_RULES, find_violations
from pratique.lint.rules import Severity
from pratique_cli.installations import Installation
from pratique_frontdoor.engines.outage_simulation import OutageSimulation

ENOUGH_REPLICAS = 2

_NEEDS_ALL_KINDS = {"matches-nothing", "may-match-nothing"}
_WITHOUT_REINVOCATION = "no-reinvocation"
WEBHOOK_RULES = frozenset(
    rule.name
    for rule in LINT_RULES
    if (rule.severity is not Severity.INFO and rule.name not in _NEEDS_ALL_KINDS)
    or rule.name == _WITHOUT_REINVOCATION
)
"""The lint rules for the webhooks: all that warn, except those that need the kinds of custom resources."""


class InstallationFinding(msgspec.Struct, frozen=True):
    """A practice that an installation does not keep."""

    severity: Severity
    """An error or a warning."""
    rule: str
    """In kebab-case; for webhooks, the name of a lint rule."""
    where: str
    """The object, such as ``Deployment "pratique-mutator"``."""
    what: str
    """What is wrong, and what follows from it."""
    fix: str
    """What would be right."""

    def __str__(self) -> str:
        """Two lines, as those of a lint finding."""
        return f"{self.severity.value}: {self.rule}: {self.where}: {self.what}\n    fix: {self.fix}"


def check_installation(installation: Installation, now: float | None = None) -> list[InstallationFinding]:
    """Find what an installation does not keep, errors first.

    Source: the good practices for admission webhooks in Kubernetes' documentation.

    Args:
        installation: The webhooks, and what serves them.
        now: The time in seconds since 1970; None means the current time.
    """
    found = [
        *_check_webhooks(installation, now),
        *_check_services(installation),
        *_check_deployments(installation),
    ]
    return sorted(found, key=lambda finding: finding.severity is not Severity.ERROR)


def _check_webhooks(installation: Installation, now: float | None) -> Iterator[InstallationFinding]:
    configurations, cluster = installation.configurations, installation.cluster()
    if not (configurations.mutating or configurations.validating):
        yield InstallationFinding(
            Severity.WARNING,
            "no-webhooks",
            f"Namespace {go_quoted(installation.namespace)}",
            "no webhook configuration calls a Service of it, so nothing is reviewed",
            "Apply the configurations that `pratique rules` or the chart writes.",
        )
        return
    with OutageSimulation(ChainSettings(), configurations, cluster) as trial:
        for found in find_violations(configurations, cluster, trial, rules=WEBHOOK_RULES, now=now):
            rule = found.lint_rule
            severity = Severity.ERROR if rule.severity is Severity.ERROR else Severity.WARNING
            yield InstallationFinding(severity, rule.name, found.subject, found.violation.text, rule.fix)


def _check_services(installation: Installation) -> Iterator[InstallationFinding]:
    """Check the Services that the webhooks call, each once."""
    services = {_name(found): found for found in installation.objects["Service"]}
    configurations = installation.configurations
    called = {
        (service.name, service.port or 443)
        for configuration in (*configurations.mutating, *configurations.validating)
        for webhook in configuration.webhooks
        if (service := webhook.client_config.service) is not None
    }
    for name, port in sorted(called):
        where = f"Service {go_quoted(name)}"
        if name not in services:
            what, fix = "does not exist, and webhooks call it", "Create it, or correct clientConfig.service."
            yield InstallationFinding(Severity.ERROR, "service-missing", where, what, fix)
        elif port not in [member(each, "port") for each in list_at(services[name], "spec", "ports")]:
            what, fix = f"has no port {port}, which webhooks call", "Correct clientConfig.service.port."
            yield InstallationFinding(Severity.ERROR, "service-without-port", where, what, fix)
        elif not _has_ready_endpoint(installation, name):
            what = "has no ready endpoint, so every call of a webhook fails"
            fix = "Let its selector match the front door's Pods, and see why none is ready."
            yield InstallationFinding(Severity.ERROR, "service-without-endpoints", where, what, fix)


def _has_ready_endpoint(installation: Installation, service: str) -> bool:
    """Whether a Pod is ready behind a Service; an unknown state counts as ready.

    Source: ``k8s.io/api/discovery/v1/types.go`` ``EndpointConditions``.
    """
    return any(
        member(endpoint, "conditions", "ready") is not False
        for found in installation.objects["EndpointSlice"]
        if member(found, "metadata", "labels", "kubernetes.io/service-name") == service
        for endpoint in list_at(found, "endpoints")
    )


def _check_deployments(installation: Installation) -> Iterator[InstallationFinding]:
    deployments = installation.objects["Deployment"]
    if not deployments:
        where = f"Namespace {go_quoted(installation.namespace)}"
        fix = "Name Pratique's namespace by --namespace, or install Pratique there."
        yield InstallationFinding(Severity.ERROR, "no-deployments", where, "has no Deployment", fix)
    for found in deployments:
        where = f"Deployment {go_quoted(_name(found))}"
        for rule, what, fix in _unready(found, installation):
            yield InstallationFinding(Severity.WARNING, rule, where, what, fix)


def _unready(deployment: JSONObject, installation: Installation) -> Iterator[tuple[str, str, str]]:
    """Yield rule, problem and fix where a Deployment may lose all its Pods at once."""
    template = member(deployment, "spec", "template")
    ready = member(deployment, "status", "readyReplicas") or 0
    if not isinstance(ready, int) or ready < ENOUGH_REPLICAS:
        what = f"{ready} of its Pods are ready, and while none is, it answers nobody"
        yield (
            "few-ready-replicas",
            what,
            f"Run {ENOUGH_REPLICAS} replicas or more, and see why others are not ready.",
        )
    if not any(_selects(budget, template) for budget in installation.objects["PodDisruptionBudget"]):
        what = "no PodDisruptionBudget covers its Pods, so draining nodes may end all of them"
        yield (
            "no-disruption-budget",
            what,
            "Add a PodDisruptionBudget with minAvailable: 1 that selects its Pods.",
        )
    spec = mapping_at(template, "spec")
    if not spec.get("topologySpreadConstraints") and not member(spec, "affinity", "podAntiAffinity"):
        what = "nothing spreads its Pods, so one node may run all of them"
        yield "not-spread", what, "Add topologySpreadConstraints by kubernetes.io/hostname."
    nodes = _nodes(deployment, installation.objects["Pod"])
    if len(nodes) >= ENOUGH_REPLICAS and len(set(nodes)) == 1:
        what = f"all {len(nodes)} Pods run on the node {go_quoted(nodes[0])}, and are lost with it"
        yield (
            "one-node",
            what,
            "Add a node, or let topologySpreadConstraints refuse the second Pod of a node.",
        )


def _nodes(deployment: JSONObject, pods: Sequence[JSONObject]) -> list[str]:
    """The nodes of a Deployment's Pods, one for each Pod that has one."""
    nodes = (member(pod, "spec", "nodeName") for pod in pods if _selects(deployment, pod))
    return [node for node in nodes if isinstance(node, str) and node]


def _selects(owner: JSONObject, labelled: JSON) -> bool:
    """Whether ``spec.selector`` matches an object; a PodDisruptionBudget without one selects nothing."""
    selector = member(owner, "spec", "selector")
    if selector is None:
        return False
    return compile_selector(msgspec.convert(selector, prepared(LabelSelector))).matches_object(labelled)


def _name(document: JSONObject) -> str:
    return str(member(document, "metadata", "name"))
