"""Validating policies: documents of policies and bindings, loaded as from files and evaluated for reviews."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.store import ObjectStore
from pratique.configuration.loading import Configurations, load_configurations
from pratique.policies.activation import UNLIMITED, EvaluationLimits
from pratique.policies.validating import ValidatingPolicies
from pratique.policies.validating_decisions import PoliciesDecision
from support.admissions import review_of

GROUP = "admissionregistration.k8s.io"
EVERYTHING = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}


def loaded(*documents: JSONObject) -> Configurations:
    """Load documents as those of one file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "policies.yaml")
        file.write_text("\n---\n".join(map(json.dumps, documents)), "utf-8")
        return load_configurations([file])


def policies_of(*documents: JSONObject) -> ValidatingPolicies:
    """Compile the ValidatingAdmissionPolicies of documents."""
    found = loaded(*documents)
    return ValidatingPolicies(found.validating_policies, found.validating_bindings)


def policy(*expressions: str | JSONObject, name: str = "p", **spec: Any) -> JSONObject:
    """A policy for everything, which demands that the expressions be true."""
    validations = [{"expression": item} if isinstance(item, str) else item for item in expressions]
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": [EVERYTHING]}, "validations": validations, **spec},
    }


def binding(
    policy_name: str = "p", *, name: str = "b", actions: tuple[str, ...] = ("Deny",), **spec: Any
) -> JSONObject:
    """What binds a policy everywhere."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": policy_name, "validationActions": list(actions), **spec},
    }


def deployment(replicas: int = 3, **metadata: Any) -> JSONObject:
    """A Deployment in namespace ``shop``."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", **metadata},
        "spec": {"replicas": replicas},
    }


def deployment_review(document: JSON = None, *, cluster: ObjectStore | None = None, **request: Any) -> Review:
    """The CREATE of a Deployment."""
    return review_of(
        {
            "operation": "CREATE",
            "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
            "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
            "namespace": "shop",
            "name": "web",
            "object": deployment() if document is None else document,
            **request,
        },
        ObjectStore(assume_namespaces=True) if cluster is None else cluster,
    )


def match_condition(expression: str) -> list[dict[str, str]]:
    """``matchConditions`` with one condition."""
    return [{"name": "only", "expression": expression}]


def config_map(name: str, data: JSON = None, *, namespace: str = "shop", **labels: str) -> JSONObject:
    """A ConfigMap that serves as a parameter."""
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {}}


def decide(
    *documents: JSONObject,
    review: Review | None = None,
    limits: EvaluationLimits = UNLIMITED,
    explain: bool = False,
) -> PoliciesDecision:
    """The decision of policies about a review."""
    asked = deployment_review() if review is None else review
    return policies_of(*documents).decide(asked, limits, explain=explain)


def denial_text(*documents: JSONObject, review: Review | None = None) -> str:
    """The message of a denial without the resource that it names; empty if the review is allowed."""
    status = decide(*documents, review=review).status
    return "" if status is None else status.message.partition(" is forbidden: ")[2] or status.message


def denial_message(*documents: JSONObject, review: Review | None = None) -> str:
    """The message of the validation that denies a review; empty if none does."""
    return denial_text(*documents, review=review).partition(" denied request: ")[2]


def timeless(decision: object) -> object:
    """A decision or check without the time that it took."""
    return msgspec.structs.replace(decision, seconds=0.0)  # type: ignore[type-var]  # any with a time


def contents(found: PoliciesDecision) -> tuple[object, ...]:
    """All that an evaluation gives, but how long it took."""
    return (
        [timeless(decision) for decision in found.decisions],
        list(found.audit_annotations.items()),
        found.refusal,
        [timeless(check) for check in found.checks],
        found.warnings,
        found.denials,
    )
