"""What stands for the Deployment controller and kubelets in tests: a Deployment is rolled out as soon as it is seen.

So commands that wait for Deployments come back, while processes of the test are in the place of the Pods.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from typing import Any

from support.api_clients import Client
from support.api_servers import ApiServer

_PERIOD_SECONDS = 0.3


@contextlib.contextmanager
def rolling_out(server: ApiServer, namespace: str) -> Iterator[None]:
    """Roll out the Deployments of a namespace until the block ends."""
    ended = threading.Event()

    def run() -> None:
        with contextlib.closing(server.client()) as client:
            while not ended.wait(_PERIOD_SECONDS):
                found = client.ask("GET", f"/apis/apps/v1/namespaces/{namespace}/deployments")
                for deployment in found.body.get("items") or ():
                    if deployment.get("status", {}).get("observedGeneration") != _generation(deployment):
                        _roll_out(client, deployment)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _generation(document: Any) -> int:
    generation: int = document["metadata"]["generation"]
    return generation


def _roll_out(client: Client, deployment: Any) -> None:
    """Make the ReplicaSet of the present template, and say that all Pods of both are ready."""
    metadata, spec = deployment["metadata"], deployment["spec"]
    counts = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas"), spec["replicas"])
    path = f"/apis/apps/v1/namespaces/{metadata['namespace']}"
    template = json.dumps(spec["template"], sort_keys=True).encode()
    name = f"{metadata['name']}-{hashlib.sha256(template).hexdigest()[:8]}"
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": metadata["name"], "uid": metadata["uid"]}
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "labels": spec["selector"]["matchLabels"],
            "ownerReferences": [owner | {"controller": True}],
        },
        "spec": {key: spec[key] for key in ("replicas", "selector", "template")},
    }
    client.ask("POST", f"{path}/replicasets", replica_set)
    scaled = client.ask("PATCH", f"{path}/replicasets/{name}", {"spec": {"replicas": spec["replicas"]}}).body
    seen = {"observedGeneration": _generation(scaled)}
    client.ask("PATCH", f"{path}/replicasets/{name}/status", {"status": counts | seen})
    observed = {"observedGeneration": _generation(deployment), "updatedReplicas": spec["replicas"]}
    client.ask("PATCH", f"{path}/deployments/{metadata['name']}/status", {"status": counts | observed})
