"""Which namespaces a policy selects by labels, with the namespaces of ``--cluster`` and with assumed ones."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from support.pods import pod
from support.validating_policies import binding, policy

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

NAME = "kubernetes.io/metadata.name"
LEVEL = "pod-security.kubernetes.io/enforce"
SELECTORS: dict[str, dict[str, Any]] = {
    "by-name": {"matchLabels": {NAME: "shop"}},
    "by-other-name": {"matchLabels": {NAME: "elsewhere"}},
    "by-names": {"matchExpressions": [{"key": NAME, "operator": "In", "values": ["shop", "kitchen"]}]},
    "but-system": {"matchExpressions": [{"key": NAME, "operator": "NotIn", "values": ["kube-system"]}]},
    "but-shop": {"matchExpressions": [{"key": NAME, "operator": "NotIn", "values": ["shop"]}]},
    "by-level": {"matchExpressions": [{"key": LEVEL, "operator": "Exists"}]},
    "without-level": {"matchExpressions": [{"key": LEVEL, "operator": "DoesNotExist"}]},
}
OF_SHOP = {"by-name", "by-names", "but-system", "without-level", "namespace-object"}
UNLABELLED = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
ACCOUNT = {
    "apiVersion": "v1",
    "kind": "ServiceAccount",
    "metadata": {"name": "default", "namespace": "shop"},
}
ELSEWHERE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}}


def denying(name: str, expression: str, **resources: Any) -> list[dict[str, Any]]:
    bound = binding(name, name=name, matchResources=resources)
    return [policy({"expression": expression, "message": name}, name=name), bound]


def policies() -> list[dict[str, Any]]:
    documents = denying("namespace-object", f"namespaceObject.metadata.labels != {{'{NAME}': 'shop'}}")
    for name, selector in SELECTORS.items():
        documents += denying(name, "false", namespaceSelector=selector)
    return documents


@pytest.mark.parametrize(
    ("cluster", "flags"),
    [
        ([], ()),
        ([UNLABELLED, ACCOUNT], ()),
        ([ELSEWHERE], ("--assume", "namespaces,serviceaccounts")),
    ],
    ids=["no cluster", "listed", "assumed"],
)
def test_every_namespace_has_the_label_of_its_name_and_no_other(
    pratique: Program, tmp_path: Path, cluster: list[dict[str, Any]], flags: tuple[str, ...]
) -> None:
    (tmp_path / "policies.yaml").write_text("\n---\n".join(map(json.dumps, policies())))
    (tmp_path / "cluster.yaml").write_text("\n---\n".join(map(json.dumps, cluster)))
    named = ("--cluster", "cluster.yaml") if cluster else ()
    given = json.dumps(pod(namespace="shop"))
    ran = pratique("review", "-o", "json", "--config", "policies.yaml", *named, *flags, "-", stdin=given)
    (decision,) = json.loads(ran.stdout)
    denied = {step["configuration"] for step in decision["steps"] if step["outcome"] == "denied"}
    assert denied == OF_SHOP
    notes = [
        line for line in ran.stderr.splitlines() if "has no label but kubernetes.io/metadata.name" in line
    ]
    wanting = 'namespaceSelector of ValidatingAdmissionPolicyBinding "by-level"'
    assert [line.endswith(wanting) for line in notes] == ([] if cluster else [True])
