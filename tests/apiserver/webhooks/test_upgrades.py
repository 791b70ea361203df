"""A changed chain is rolled out as Deployments do it: new Pods beside old ones, which call nobody of another chain."""

from __future__ import annotations

import base64
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.api_servers import free_port
from support.cluster_webhooks import UNREGISTERED
from support.clusters import Cluster
from support.connection_forwarders import Forwarder
from support.deployed_stacks import Replica
from support.steady_loads import SteadyLoad, steady_load
from support.waiting import within

NAMESPACE = "rolled"
OLD, NEW = "AlwaysPullImages", "AlwaysPullImages,ExtendedResourceToleration"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {
        "containers": [
            {
                "name": "app",
                "image": "app:1",
                "imagePullPolicy": "IfNotPresent",
                "resources": {"limits": {"example.com/gpu": "1"}},
            }
        ]
    },
}
PATH = f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All"


class Rollout:
    """Two replicas of each service, one of each chain; every front door knows all mutators and validators."""

    def __init__(self, folder: Path, certificates: Path) -> None:
        ports = {name: (free_port(), free_port()) for name in ("mutator", "validator", "frontdoor")}
        lists = {name: ",".join(f"127.0.0.1:{port}" for port in pair) for name, pair in ports.items()}
        tls = [f"--tls-cert-file={certificates / 'frontdoor' / 'tls.crt'}"]
        tls += [f"--tls-private-key-file={certificates / 'frontdoor' / 'tls.key'}"]
        further = {
            "frontdoor": [f"--mutator=ipv4:{lists['mutator']}", f"--validator={lists['validator']}", *tls]
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PRATIQUE_")}
        self.ports = ports["frontdoor"]
        self.replicas = {
            (name, chain): Replica(
                port,
                [
                    *(sys.executable, "-m", "pratique_cli", "serve", name, "--host=127.0.0.1"),
                    *(f"--port={port}", f"--admission-control={chain}", "--drain-seconds=1"),
                    *further.get(name, ()),
                ],
                kept,
                folder / f"{name}-{port}.log",
            )
            for name, pair in ports.items()
            for port, chain in zip(pair, (OLD, NEW), strict=True)
        }

    def start(self, chain: str, *services: str) -> None:
        for service in services:
            self.replicas[service, chain].start()

    def stop(self, chain: str, *services: str) -> None:
        for service in services:
            self.replicas[service, chain].stop()


@contextlib.contextmanager
def registered(cluster: Cluster, port: int) -> Iterator[None]:
    """Let the API server call the front doors for one namespace, and refuse what they do not answer."""
    cluster.api.create_namespace(NAMESPACE, {"variant": UNREGISTERED})
    selector = {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    base = "/apis/admissionregistration.k8s.io/v1"
    bundle = (cluster.stack.certificates / "ca.crt").read_bytes()
    kinds = {"Mutating": "mutate", "Validating": "validate"}
    for kind, path in kinds.items():
        client: dict[str, Any] = {"url": f"https://127.0.0.1:{port}/{path}", "caBundle": base64_of(bundle)}
        webhook = {
            "name": f"{path}.rolled.example.com",
            "clientConfig": client,
            "rules": [rule],
            "namespaceSelector": selector,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 10,
            "failurePolicy": "Fail",
        }
        document = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {"name": NAMESPACE},
            "webhooks": [webhook],
        }
        made = cluster.api.ask("POST", f"{base}/{kind.lower()}webhookconfigurations", document)
        assert made.code == 201, made.body
    try:
        yield
    finally:
        for kind in kinds:
            cluster.api.ask("DELETE", f"{base}/{kind.lower()}webhookconfigurations/{NAMESPACE}")


def base64_of(content: bytes) -> str:
    return base64.b64encode(content).decode()


@contextlib.contextmanager
def creating(cluster: Cluster) -> Iterator[tuple[SteadyLoad, list[bool]]]:
    """Create Pods all the while, each of which has to be reviewed; whether the new chain did it, of each."""
    by_new: list[bool] = []
    with contextlib.closing(cluster.api.client()) as client:

        def create() -> None:
            reply = client.ask("POST", PATH, POD)
            assert reply.code == 201, reply.body
            assert reply.body["spec"]["containers"][0]["imagePullPolicy"] == "Always"
            tolerations = reply.body["spec"].get("tolerations", [])
            by_new.append(any(item.get("key") == "example.com/gpu" for item in tolerations))

        with steady_load(create, 10) as load:
            yield load, by_new


def test_no_request_is_lost_while_a_changed_chain_is_rolled_out(cluster: Cluster, tmp_path: Path) -> None:
    services = ("mutator", "validator")
    rollout = Rollout(tmp_path, cluster.stack.certificates)
    old, new = rollout.ports
    with contextlib.ExitStack() as running:
        for replica in rollout.replicas.values():
            running.callback(replica.kill)
        rollout.start(OLD, *services, "frontdoor")
        assert within(60, lambda: cluster.stack.is_ready(old))
        proxy = running.enter_context(Forwarder(("127.0.0.1", free_port()), [old]))
        running.enter_context(registered(cluster, proxy.port))
        with contextlib.closing(cluster.api.client()) as client:
            assert within(60, lambda: "Always" in str(client.ask("POST", PATH, POD).body))
        load, by_new = running.enter_context(creating(cluster))

        def wait_for_more() -> None:
            wanted = load.answered + 5
            assert within(60, lambda: load.answered >= wanted)

        rollout.start(NEW, *services)
        wait_for_more()
        assert not any(by_new), "old front doors call nobody of the new chain"
        rollout.start(NEW, "frontdoor")
        assert within(60, lambda: cluster.stack.is_ready(new))
        proxy.take_in(new)
        proxy.leave_out(old)
        wait_for_more()
        rollout.stop(OLD, "frontdoor")
        wait_for_more()
        rollout.stop(OLD, *services)
        wait_for_more()
        assert by_new[-1]
