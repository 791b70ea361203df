"""A hundred objects that others wrote, applied to an API server that has the stack review all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from support.clusters import Cluster

DATA = Path(__file__).parents[2] / "data"
MANIFESTS = [*(DATA / "manifests").glob("*.yaml"), *(DATA / "kubernetes_examples").glob("*.yaml")]
ABSENT = {"ServiceMonitor", "APIService"}
"""Kinds that this API server does not have, or that need a server of their own."""


def objects() -> Iterator[tuple[str, dict[str, Any]]]:
    """All objects, each with a namespace for its file, as the same names come again; and the Pods of the workloads."""
    for file in sorted(MANIFESTS):
        namespace = f"of-{file.stem.lower().replace('_', '-')}"[:63].rstrip("-")
        written = [
            item for item in yaml.safe_load_all(file.read_text()) if item and item["kind"] not in ABSENT
        ]
        # Pods come last, as their accounts may; those of a StatefulSet have volumes that its controller makes
        templates = (item for item in written if "template" in item.get("spec", {}))
        pods = [pod_of(item) for item in templates if item["kind"] != "StatefulSet"]
        yield from ((namespace, item) for item in [*written, *pods])


def pod_of(workload: dict[str, Any]) -> dict[str, Any]:
    """A Pod of a workload, as its controller would make it."""
    template = workload["spec"]["template"]
    name = f"{workload['metadata']['name']}-0"
    metadata = template.get("metadata", {}) | {"name": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def test_a_hundred_real_objects_are_applied(cluster: Cluster) -> None:
    plurals = {
        (resource_list["groupVersion"], resource["kind"]): (resource["name"], resource["namespaced"])
        for resource_list in discovered(cluster)
        for resource in resource_list["resources"]
        if "/" not in resource["name"]
    }
    before = reviews(cluster)
    refused, reviewed, applied, namespaces = [], 0, 0, {""}
    with contextlib.closing(cluster.api.client()) as client:
        for file_namespace, written in objects():
            plural, namespaced = plurals[written["apiVersion"], written["kind"]]
            namespace = file_namespace if namespaced else ""
            if namespace not in namespaces:
                cluster.api.create_namespace(namespace, {"variant": "everything"})
                namespaces.add(namespace)
            reply = client.ask("PATCH", path(written, plural, namespace), written, patch="apply")
            applied, reviewed = applied + 1, reviewed + namespaced
            if reply.code >= 300:
                refused.append((written["kind"], written["metadata"]["name"], reply.body["message"]))
            elif written["kind"] == "Pod":
                assert "IfNotPresent" not in str(reply.body["spec"])
    print(f"{applied} objects, {reviewed} reviewed")  # noqa: T201 - the figure
    assert refused == []
    assert applied >= 100
    assert reviews(cluster) - before >= reviewed


def path(written: dict[str, Any], plural: str, namespace: str) -> str:
    """Where an object is applied, without a namespace of its own: Pods of several files have the same names."""
    written["metadata"].pop("namespace", None)
    prefix = "api" if written["apiVersion"] == "v1" else "apis"
    scope = f"/namespaces/{namespace}" if namespace else ""
    name = written["metadata"]["name"]
    return f"/{prefix}/{written['apiVersion']}{scope}/{plural}/{name}?fieldManager=tests&force=true"


def reviews(cluster: Cluster) -> float:
    """How many reviews the validating webhook has answered."""
    metric, name = "apiserver_admission_webhook_request_total", "validate.pratique.pratique.svc"
    return cluster.api.counted(metric, name=name, code="200")


def discovered(cluster: Cluster) -> list[dict[str, Any]]:
    """What the API server serves, in all its groups."""
    groups = cluster.api.ask("GET", "/apis").body["groups"]
    versions = ["/api/v1", *(f"/apis/{v['groupVersion']}" for group in groups for v in group["versions"])]
    return [cluster.api.ask("GET", version).body for version in versions]
