"""What an expression may cost: Pratique stops at the very size of object at which an API server does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pratique.testing import PolicyChain
from support.api_servers import ApiServer
from support.waiting import within

NAMESPACE = "costs"
PATIENCE_SECONDS = 120.0
"""How long a review may take here: the most that expressions may cost takes a busy machine longer than any API server
waits."""
MAPS = "object.data.map(a, object.data.map(b, a + b)).size() > 0"
LARGEST = {
    "pairs": (407, "object.data.all(a, object.data.all(b, a == a))"),
    "maps": (257, MAPS),
    "searches": (277, "object.data.all(a, object.data.map(b, b).indexOf(a) >= 0)"),
    "replacements": (353, "object.data.all(a, object.data.all(b, b.replace('k', 'kk').size() > 1))"),
    "splits": (315, "object.data.all(a, object.data.all(b, b.split('0').join('-').size() > 1))"),
}
"""By name: the most keys that a ConfigMap may have, as kube-apiserver 1.37.2 decides, and the expression."""
IN_SHORT = {"pairs", "maps"}
"""Those that ``make test`` compares; tests/cel holds the costs of functions of strings to Kubernetes' own, too."""
VALIDATIONS = {
    "budget-of-validations": ([], [MAPS] * 11),
    "budget-of-conditions": ([MAPS] * 3, ["true"]),
}
"""Policies whose expressions all stay within their own limit, and exceed the budget that they share."""


def policy(name: str, conditions: list[str], validations: list[str]) -> list[dict[str, Any]]:
    api = {"apiVersion": "admissionregistration.k8s.io/v1"}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule], "objectSelector": {"matchLabels": {"policy": name}}},
        "matchConditions": [
            {"name": f"c{number}", "expression": text} for number, text in enumerate(conditions)
        ],
        "validations": [{"expression": text, "message": "no"} for text in validations],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return [
        {**api, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec},
        {**api, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": binding},
    ]


POLICIES = {
    **{name: policy(name, [], [text]) for name, (_, text) in LARGEST.items()},
    **{name: policy(name, *both) for name, both in VALIDATIONS.items()},
    "known": policy("known", [], ["false"]),
}


def config_map(name: str, keys: int) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {"policy": name}}
    data = {f"k{number:05d}": "v" for number in range(keys)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def refusal(server: ApiServer, name: str, keys: int) -> str:
    """What the API server says; empty where it takes the object."""
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps?dryRun=All"
    reply = server.ask("POST", path, config_map(name, keys))
    return "" if reply.code == 201 else str(reply.body["message"])


def own_refusal(folder: Path, name: str, keys: int) -> str:
    file = folder / "policies.yaml"
    file.write_text("\n---\n".join(map(json.dumps, POLICIES[name])))
    chain = PolicyChain(config=[file], admission_control=["ValidatingAdmissionPolicy"])
    answer = chain.admit(config_map(name, keys), timeout_seconds=PATIENCE_SECONDS)
    return "" if answer.allowed else answer.message


@pytest.fixture(name="judge", scope="module")
def _judge(api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """The API server with all of the policies."""
    api_server.create_namespace(NAMESPACE)
    file = tmp_path_factory.mktemp("costs") / "policies.json"
    items = [item for both in POLICIES.values() for item in both]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    applied = api_server.kubectl("apply", "-f", str(file))
    assert applied.returncode == 0, applied.stderr
    assert within(60, lambda: refusal(api_server, "known", 1) != "")
    yield api_server
    api_server.kubectl("delete", "-f", str(file))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in IN_SHORT else pytest.mark.long) for name in LARGEST]
)
def test_an_expression_may_cost_as_much_as_in_an_api_server(
    judge: ApiServer, tmp_path: Path, name: str
) -> None:
    largest, _ = LARGEST[name]
    assert (refusal(judge, name, largest), own_refusal(tmp_path, name, largest)) == ("", "")
    stopped = refusal(judge, name, largest + 1)
    assert "actual cost limit exceeded" in stopped
    assert own_refusal(tmp_path, name, largest + 1) == stopped


@pytest.mark.parametrize("name", VALIDATIONS)
def test_expressions_share_the_budget_that_they_share_in_an_api_server(
    judge: ApiServer, tmp_path: Path, name: str
) -> None:
    keys, _ = LARGEST["maps"]
    stopped = refusal(judge, name, keys)
    assert "running out of cost budget" in stopped
    assert own_refusal(tmp_path, name, keys) == stopped
