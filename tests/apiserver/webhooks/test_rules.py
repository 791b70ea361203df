"""What ``pratique rules`` writes, behind a real API server."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from support.cluster_manifests import of_kind
from support.cluster_webhooks import UNREGISTERED
from support.clusters import Cluster
from support.forked_commands import PROGRAM, run
from support.waiting import within

SPREAD = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {}}
        ]
    }
}


def rules(*flags: object) -> str:
    ran = run([PROGRAM, "rules", *flags])
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(name="namespace", scope="module")
def _namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace that only webhooks of ``pratique rules`` see, for the chain of the manifests."""
    chain = of_kind("ConfigMap")["pratique-chain"]["data"]["PRATIQUE_ADMISSION_CONTROL"]
    flags = ("--admission-control", f"{chain},ValidatingAdmissionPolicy", "--config", cluster.policies)
    selected = ("--namespace-selector", f"variant={UNREGISTERED}", "--timeout", "5s")
    service = cluster.api.ask("GET", "/api/v1/namespaces/pratique/services/pratique").body
    port = service["spec"]["ports"][0]["port"]
    reached = ("--service", f"pratique/pratique:{port}", "--ca-file", cluster.stack.certificates / "ca.crt")
    applied = apply(cluster, rules(*flags, *selected, *reached))
    assert applied.returncode == 0, applied.stderr
    cluster.api.create_namespace(UNREGISTERED, {"variant": UNREGISTERED})
    with contextlib.closing(cluster.api.client()) as client:
        path = f"/api/v1/namespaces/{UNREGISTERED}/pods?dryRun=All"
        assert within(120, lambda: "Always" in str(client.ask("POST", path, pod("probe")).body))
    yield UNREGISTERED
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        cluster.api.ask("DELETE", f"/apis/admissionregistration.k8s.io/v1/{kind}/pratique")


def apply(cluster: Cluster, text: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return cluster.api.kubectl("apply", "--server-side", "--validate=strict", *flags, "-f", "-", stdin=text)


def pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "app", "image": "app:1", "imagePullPolicy": "Never"}]
    metadata = {"name": name, "labels": {"owner": "me"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": containers} | spec,
    }


@pytest.mark.parametrize("phase", ["admit", "mutate", "validate", "split"])
@pytest.mark.parametrize(
    "chain",
    [
        (),
        ("--admission-control", "NodeRestriction,PodSecurity,LimitRanger,ResourceQuota"),
        ("--enable-admission-plugins", "AlwaysPullImages", "--namespace-selector", "a in (b, c),!d"),
    ],
    ids=["default", "exact", "more"],
)
def test_an_api_server_accepts_them_strictly(cluster: Cluster, phase: str, chain: tuple[str, ...]) -> None:
    applied = apply(cluster, rules("--phase", phase, *chain), "--dry-run=server")
    assert applied.returncode == 0, applied.stderr


def test_the_stack_mutates_what_they_match(cluster: Cluster, namespace: str) -> None:
    made = cluster.api.ask("POST", f"/api/v1/namespaces/{namespace}/pods", pod("mutated"))
    assert made.code == 201
    assert made.body["spec"]["containers"][0]["imagePullPolicy"] == "Always"


def test_the_stack_denies_what_they_match(cluster: Cluster, namespace: str) -> None:
    denied = cluster.api.ask("POST", f"/api/v1/namespaces/{namespace}/pods", pod("spread", affinity=SPREAD))
    assert denied.code == 403
    assert denied.body["message"].startswith('admission webhook "validate.pratique.pratique.svc" denied')


def test_they_match_the_subresources_of_policies(cluster: Cluster, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    made = cluster.api.ask("POST", pods, pod("debugged")).body
    made["spec"]["ephemeralContainers"] = [{"name": "shell", "image": "shell:1"}]
    made["metadata"].pop("labels")
    before = updates(cluster)
    changed = cluster.api.ask("PUT", f"{pods}/debugged/ephemeralcontainers", made)
    assert changed.code == 200, changed.body
    assert updates(cluster) > before


def updates(cluster: Cluster) -> float:
    """How many updates the validating webhook has reviewed."""
    metric, name = (
        "apiserver_admission_webhook_admission_duration_seconds_count",
        "validate.pratique.pratique.svc",
    )
    return cluster.api.counted(metric, name=name, operation="UPDATE")
