"""Configurations that violate no lint rule, and the findings of others."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ANY_NAMESPACE, Cluster
from pratique.configuration.loading import load_configurations
from pratique.configuration.settings import ChainSettings
from pratique.lint.registry import RULE_NAMES, find_violations
from pratique.lint.rules import LintFinding
from pratique_frontdoor.engines.outage_simulation import OutageSimulation

GROUP = "admissionregistration.k8s.io"
NOW = 1_800_000_000.0
"""In January 2027."""


def rule(resources: str = "services", group: str = "", operation: str = "CREATE") -> JSONObject:
    return {
        "operations": [operation],
        "apiGroups": [group],
        "apiVersions": ["*"],
        "resources": resources.split(),
    }


def webhook(*rules: JSONObject, **fields: Any) -> JSONObject:
    """A webhook without findings; by default for Services outside kube-system."""
    return {
        "name": "a.example.com",
        "clientConfig": {"url": "https://hooks.example.com"},
        "rules": list(rules) or [rule()],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
        "namespaceSelector": outside("kube-system"),
        **fields,
    }


def outside(*namespaces: str) -> JSONObject:
    key = "kubernetes.io/metadata.name"
    return {"matchExpressions": [{"key": key, "operator": "NotIn", "values": [*namespaces]}]}


def service(namespace: str, name: str = "hook") -> JSONObject:
    return {"service": {"namespace": namespace, "name": name}}


def validating(*webhooks: JSONObject, name: str = "checks", version: str = "v1") -> JSONObject:
    return _configuration("Validating", name, webhooks, version)


def mutating(*webhooks: JSONObject, name: str = "changes") -> JSONObject:
    return _configuration("Mutating", name, webhooks, "v1")


def _configuration(kind: str, name: str, webhooks: Collection[JSONObject], version: str) -> JSONObject:
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": list(webhooks),
    }


def policy(**spec: Any) -> JSONObject:
    constraints = {"resourceRules": [rule()], **spec.pop("matchConstraints", {})}
    validations = [{"expression": "has(object.spec)"}]
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "few"},
        "spec": {"matchConstraints": constraints, "validations": validations, **spec},
    }


def binding(policy_name: str = "few", **spec: Any) -> JSONObject:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "everywhere"},
        "spec": {"policyName": policy_name, "validationActions": ["Deny"], **spec},
    }


def write(folder: Path, documents: Collection[JSONObject], comment: str = "") -> Path:
    """Write documents to one YAML file, each below a comment."""
    path = folder / "configurations.yaml"
    path.write_text("".join(f"---\n{comment}\n{json.dumps(document, indent=1)}\n" for document in documents))
    return path


def findings_of(
    path: Path,
    cluster: Cluster = ANY_NAMESPACE,
    rules: Collection[str] = RULE_NAMES,
    now: float = NOW,
) -> list[LintFinding]:
    configurations = load_configurations([path])
    with OutageSimulation(ChainSettings(), configurations, cluster) as trial:
        return find_violations(configurations, cluster, trial, rules=rules, now=now)


def rules_of(path: Path, cluster: Cluster = ANY_NAMESPACE, rules: Collection[str] = RULE_NAMES) -> set[str]:
    return {finding.lint_rule.name for finding in findings_of(path, cluster, rules)}
