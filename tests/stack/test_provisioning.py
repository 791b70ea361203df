"""NamespaceAutoProvision in a running stack, where no service sees what another one has created."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pratique.admission.controllers import BOTH
from pratique.admission.reviews import Deadline
from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.files import load_cluster
from pratique.configuration.settings import ChainSettings
from pratique_frontdoor.engines.local import LocalEngine
from pratique_frontdoor.http.codecs import decode_review
from support.local_stacks import Stack, running
from support.validating_policies import binding, policy

LISTED = """
apiVersion: v1
kind: Namespace
metadata: {name: listed}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: listed}
"""
PLUGINS = ("NamespaceAutoProvision", "NamespaceExists")


@pytest.fixture(name="chain", scope="module")
def _chain(tmp_path_factory: pytest.TempPathFactory) -> ChainSettings:
    folder: Path = tmp_path_factory.mktemp("provisioning")
    (folder / "cluster.yaml").write_text(LISTED)
    named = policy(
        {
            "expression": "namespaceObject.metadata.labels['kubernetes.io/metadata.name'] != 'shunned'",
            "message": "shunned",
        }
    )
    (folder / "policies.yaml").write_text("\n---\n".join(map(json.dumps, (named, binding()))))
    return ChainSettings(
        config=(folder / "policies.yaml",),
        cluster=(folder / "cluster.yaml",),
        enable_admission_plugins=PLUGINS,
    )


@pytest.fixture(name="stack", scope="module")
def _stack(chain: ChainSettings) -> Iterator[Stack]:
    assert chain.cluster is not None
    flags = ("--cluster", str(chain.cluster[0]), "--config", str(chain.config[0]))
    with running("--validators", "2", "--enable-admission-plugins", ",".join(PLUGINS), *flags) as stack:
        yield stack


def pod_in(namespace: str, operation: str = "CREATE", *, dry_run: bool = False) -> JSONObject:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "serviceAccountName": "default",
            "automountServiceAccountToken": False,
            "containers": [{"name": "web", "image": "registry.example.com/web"}],
        },
    }
    request = {
        "uid": "1",
        "operation": operation,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": "web",
        "namespace": namespace,
        "object": None if operation == "DELETE" else pod,
        "oldObject": None if operation == "CREATE" else pod,
        "dryRun": dry_run,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def words(allowed: Any, message: Any) -> str:
    return "admitted" if allowed else str(message)


def decided_offline(chain: ChainSettings, asked: JSONObject) -> str:
    """The result of one review without services."""

    async def decide() -> str:
        store = load_cluster(chain.cluster)
        engine = LocalEngine(chain, store)
        review = decode_review(json.dumps(asked).encode(), store).review
        try:
            decision = await engine.decide(review, BOTH, Deadline.after(30))
        finally:
            await engine.close()
        assert {item["metadata"]["name"] for item in store.list("", "namespaces")} == {"listed"}
        return words(decision.allowed, decision.status and decision.status.message)

    return asyncio.run(decide())


NOT_FOUND = 'namespaces "shop" not found'
INVALID = 'pods "web" is forbidden: Namespace "my.shop" is invalid: metadata.name: Invalid value: "my.shop"'


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(pod_in("shop", dry_run=True), NOT_FOUND, id="a dry run makes nothing"),
        pytest.param(pod_in("shop"), "admitted", id="a creation makes its namespace"),
        pytest.param(pod_in("shop", dry_run=True), NOT_FOUND, id="a dry run still finds nothing"),
        pytest.param(pod_in("shop", "UPDATE"), "admitted", id="what is updated was created once"),
        pytest.param(pod_in("shop", "DELETE"), "admitted", id="what is deleted was created once"),
        pytest.param(pod_in("listed"), "admitted", id="a namespace that is there"),
        pytest.param(pod_in("listed", dry_run=True), "admitted", id="a dry run where it is there"),
        pytest.param(pod_in("shunned"), "denied request: shunned", id="policies see what was made"),
        pytest.param(pod_in("my.shop"), INVALID, id="a name that no namespace can have"),
        pytest.param(pod_in("my.shop", "UPDATE"), 'namespaces "my.shop" not found', id="nor can it be there"),
    ],
)
def test_services_and_an_offline_run_decide_alike(
    asked: JSONObject, expected: str, stack: Stack, chain: ChainSettings
) -> None:
    offline = decided_offline(chain, asked)
    assert expected in offline
    for _ in range(4):  # both validators, and whatever one of them may remember
        response = stack.post("/admit", asked)["response"]
        assert words(response["allowed"], response.get("status", {}).get("message")) == offline


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_validator_sees_the_namespace_without_the_mutating_phase(
    stack: Stack,
    dry_run: bool,  # noqa: FBT001 - a table's column
) -> None:
    for number in range(4):
        asked = pod_in(f"new-{number}", dry_run=dry_run)
        assert stack.post("/validate", asked)["response"]["allowed"] is not dry_run
