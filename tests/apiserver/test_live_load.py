"""A large cluster: 50,000 Pods in 5,000 namespaces are followed, counted and current."""

from __future__ import annotations

import base64
import functools
import itertools
import json
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support import api_servers, local_stacks
from support.api_servers import ApiServer, write_kubeconfig
from support.live_stacks import metric, reason, wait_for

NAMESPACES, PODS = 5_000, 50_000
_PUTS = 100


def stored(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    """An object as etcd has it."""
    metadata = {"name": name, "uid": f"{kind}-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    namespace = fields.pop("namespace", "")
    metadata |= {"namespace": namespace} if namespace else {}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata | fields.pop("metadata", {}), **fields}


def objects() -> Iterator[tuple[str, dict[str, Any]]]:
    """Namespaces with their ServiceAccounts, and Pods as large as usual, by their keys in etcd."""
    for number in range(NAMESPACES):
        name = f"team-{number}"
        labels = {"labels": {"kubernetes.io/metadata.name": name}}
        yield f"namespaces/{name}", stored("Namespace", name, metadata=labels, status={"phase": "Active"})
        yield f"serviceaccounts/{name}/default", stored("ServiceAccount", "default", namespace=name)
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}}
    variables = [{"name": f"VARIABLE_{number}", "value": "x" * 40} for number in range(20)]
    for number in range(PODS):
        namespace, name = f"team-{number % NAMESPACES}", f"web-{number}"
        containers = [
            {"name": part, "image": f"{part}:1", "resources": resources, "env": variables}
            for part in ("web", "proxy")
        ]
        spec = {"nodeName": f"node-{number % 500}", "serviceAccountName": "default", "containers": containers}
        labels = {"labels": {"app": name, "team": namespace}}
        yield (
            f"pods/{namespace}/{name}",
            stored("Pod", name, namespace=namespace, metadata=labels, spec=spec, status={"phase": "Running"}),
        )


def fill(server: ApiServer, found: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """Write objects into etcd, which takes seconds where creating them takes many minutes."""
    remaining = iter(found)
    batches = iter(lambda: list(itertools.islice(remaining, _PUTS)), [])
    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(functools.partial(put, server), batches))


def put(server: ApiServer, batch: Sequence[tuple[str, dict[str, Any]]]) -> bool:
    """Write objects in one transaction; whether it was carried out."""
    puts = [
        {"requestPut": {"key": encoded(f"/registry/{key}"), "value": encoded(json.dumps(document))}}
        for key, document in batch
    ]
    request = urllib.request.Request(f"{server.etcd}/v3/kv/txn", json.dumps({"success": puts}).encode())
    with urllib.request.urlopen(request, timeout=120) as answer:
        return bool(json.load(answer)["succeeded"])


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def resident_mebibytes(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    [size] = [int(line.split()[1]) for line in lines if line.startswith("VmRSS")]
    return size // 1024


@pytest.mark.long
def test_fifty_thousand_pods_are_followed_and_current(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with api_servers.running() as server:
        fill(server, objects())
        flags = ["--kubeconfig", str(write_kubeconfig(server, tmp_path)), "--context", "test"]
        began = time.monotonic()
        with local_stacks.running_alone(*flags) as stack:
            record_property("seconds until ready", time.monotonic() - began)
            for resource, most in (("pods", PODS), ("serviceaccounts", NAMESPACES)):
                assert metric(stack, "pratique_live_objects", resource=resource) == most
                size = metric(stack, "pratique_live_object_bytes", resource=resource)
                record_property(f"bytes of {resource}", size)
            assert metric(stack, "pratique_live_objects", resource="namespaces") >= NAMESPACES
            record_property("resident MiB", resident_mebibytes(stack.process.pid))
            began = time.monotonic()
            label = ("label", "ns", "team-7", "pod-security.kubernetes.io/enforce=baseline")
            assert server.kubectl(*label).returncode == 0
            wait_for(lambda: "violates PodSecurity" in reason(stack, "team-7"))
            record_property("seconds until a change decided", time.monotonic() - began)
            path = "/api/v1/namespaces/team-7/pods/web-7?gracePeriodSeconds=0"  # there is no kubelet
            assert server.ask("DELETE", path).code == 200
            wait_for(lambda: metric(stack, "pratique_live_objects", resource="pods") == PODS - 1)
