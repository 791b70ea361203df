"""Mutating policies in both rounds, by kube-apiserver's decisions in ``tests/data/mutating_policies``."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.statuses import Status
from pratique.cluster.store import ObjectStore
from pratique.policies.mutating_decisions import MutatingPoliciesDecision
from support.mutating_policies import applied, bound, mutating, mutating_policies_of, patched
from support.validating_policies import deployment_review

FILE = Path(__file__).parents[1] / "data" / "mutating_policies" / "rounds.jsonl"
CASES = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]
CLUSTER = ObjectStore(
    [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "one", "namespace": "shop"},
            "data": {"k": "v"},
        }
    ],
    assume_namespaces=True,
)
RULE = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}
MAKE = {"ApplyConfiguration": applied, "JSONPatch": patched}


def documents(policies: list[JSONObject]) -> Iterator[JSONObject]:
    for policy in policies:
        spec = {
            name: policy[name]
            for name in ("failurePolicy", "reinvocationPolicy", "variables", "matchConditions")
        }
        yield mutating(
            *(MAKE[kind](text) for mutation in policy["mutations"] for kind, text in mutation.items()),
            name=policy["name"],
            matchConstraints={"resourceRules": [RULE], "objectSelector": policy["objectSelector"]},
            paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
            **spec,
        )
        for name, ref in policy["bindings"].items():
            yield bound(policy["name"], name=name, **({} if ref is None else {"paramRef": ref}))


def without_empty(value: JSON) -> JSON:
    if isinstance(value, dict):
        cleaned = {name: without_empty(child) for name, child in value.items()}
        return {name: child for name, child in cleaned.items() if child not in (None, "", {}, [])}
    return [without_empty(item) for item in value] if isinstance(value, list) else value


def told(status: Status | None) -> JSON:
    if status is None:
        return None
    assert status.details is not None
    causes = [cause.message for cause in status.details.causes]
    return {"code": status.code, "reason": status.reason, "message": status.message, "causes": causes}


def due(found: MutatingPoliciesDecision) -> Collection[str]:
    return (
        {decision.key for decision in found.decisions if decision.ran and decision.reinvocable}
        if found.dirty
        else ()
    )


@pytest.mark.parametrize("case", CASES, ids=[str(place) for place in range(len(CASES))])
def test_mutating_policies_decide_as_in_kubernetes(case: JSONObject) -> None:
    policies = mutating_policies_of(*documents(case["policies"]))
    review = deployment_review(case["object"], cluster=CLUSTER)
    again: Collection[str] | None = None
    for wanted in case["rounds"]:
        found = policies.admit(review, again=again)
        assert told(found.refusal) == wanted.get("status")
        if found.refusal is None or found.refusal.code == 403:
            assert without_empty(found.document.data) == wanted["object"]
            assert found.dirty or not any(decision.changed for decision in found.decisions)
            assert (again is not None or found.dirty) is wanted["reinvokes"]
        review, again = review.with_object(found.document), due(found)
