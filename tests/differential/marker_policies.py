"""Policies that a judge adds for its own sake: to know that others are known, and to have parameters watched."""

from __future__ import annotations

from differential.pairs import (
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
    made,
)
from pratique.apimachinery.json_values import JSONObject


def markers(name: str) -> list[JSONObject]:
    """Policies that deny one ConfigMap each, and their bindings."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    names = f"{name}-v", f"{name}-m"
    specs: list[JSONObject] = [
        {
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [{"name": "marked", "expression": f"object.metadata.name == '{marked}'"}],
        }
        for marked in names
    ]
    specs[0]["validations"] = [{"expression": "false", "message": names[0]}]
    failing = "Object{metadata: Object.metadata{labels: {'a': string(1 / int('0'))}}}"
    specs[1] |= {"mutations": [_mutation(failing)], "reinvocationPolicy": "Never"}
    return [
        made(VALIDATING_POLICIES, names[0], spec=specs[0]),
        made(VALIDATING_BINDINGS, names[0], spec={"policyName": names[0], "validationActions": ["Deny"]}),
        made(MUTATING_POLICIES, names[1], spec=specs[1]),
        made(MUTATING_BINDINGS, names[1], spec={"policyName": names[1]}),
    ]


def _mutation(expression: str) -> JSONObject:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def watching_parameters() -> list[JSONObject]:
    """Policies that match nothing, and let the API server watch parameters as long as it runs.

    It watches those of a kind from the first policy that has some to the last, and for a while after that a policy may
    find none of them.
    """
    name = "watching-parameters"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    nowhere = [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["nowhere"]}]
    common: JSONObject = {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": {"matchExpressions": nowhere}},
    }
    bound = {"policyName": name, "paramRef": {"name": "none", "parameterNotFoundAction": "Allow"}}
    mutations = {"mutations": [_mutation("Object{}")], "reinvocationPolicy": "Never"}
    return [
        made(VALIDATING_POLICIES, name, spec={**common, "validations": [{"expression": "true"}]}),
        made(VALIDATING_BINDINGS, name, spec={**bound, "validationActions": ["Deny"]}),
        made(MUTATING_POLICIES, name, spec={**common, **mutations}),
        made(MUTATING_BINDINGS, name, spec=bound),
    ]
