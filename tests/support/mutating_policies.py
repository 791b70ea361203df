"""Mutating policies at work: documents of policies and bindings, loaded as from files, and what they do to objects."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSONObject
from pratique.policies.activation import UNLIMITED, EvaluationLimits
from pratique.policies.mutating import MutatingPolicies
from pratique.policies.mutating_decisions import MutatingPoliciesDecision
from support.validating_policies import EVERYTHING, GROUP, deployment_review, loaded


def mutating_policies_of(*documents: JSONObject) -> MutatingPolicies:
    """Compile the MutatingAdmissionPolicies of documents."""
    found = loaded(*documents)
    return MutatingPolicies(found.mutating_policies, found.mutating_bindings)


def applied(expression: str) -> JSONObject:
    """A mutation by an apply configuration."""
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patched(expression: str) -> JSONObject:
    """A mutation by a JSON Patch."""
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def labelled(name: str, expression: str) -> JSONObject:
    """A mutation that sets a label to the value of an expression."""
    return applied(f'Object{{metadata: Object.metadata{{labels: {{"{name}": {expression}}}}}}}')


def mutating(*mutations: JSONObject, name: str = "p", **spec: Any) -> JSONObject:
    """A policy that matches everything."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {
                "resourceRules": [EVERYTHING | {"operations": ["CREATE", "UPDATE", "CONNECT"]}]
            },
            "mutations": list(mutations),
            "reinvocationPolicy": "Never",
            **spec,
        },
    }


def bound(policy_name: str = "p", *, name: str = "b", **spec: Any) -> JSONObject:
    """A binding that matches everything."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": policy_name, **spec},
    }


def mutate(
    *documents: JSONObject,
    review: Review | None = None,
    limits: EvaluationLimits = UNLIMITED,
    again: Collection[str] | None = None,
    explain: bool = False,
) -> MutatingPoliciesDecision:
    """The decision of mutating policies about a review."""
    asked = deployment_review() if review is None else review
    return mutating_policies_of(*documents).admit(asked, limits, again=again, explain=explain)


def failure_messages(found: MutatingPoliciesDecision) -> list[str]:
    """The messages of all failures that deny a request."""
    if found.refusal is None or found.refusal.details is None:
        return []
    return [cause.message for cause in found.refusal.details.causes]
