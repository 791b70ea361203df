"""A release is rolled out as Deployments do it, new Pods beside old ones, and no request is lost.

Where the chain changes, front doors call nobody of another chain. Where the contract does, old and new call each other.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import http.client
import os
import re
import ssl
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.cluster_webhooks import UNREGISTERED
from support.clusters import Cluster
from support.connection_forwarders import Forwarder
from support.deployed_stacks import Replica
from support.forked_commands import PROGRAM
from support.free_ports import free_port
from support.next_releases import make_next_release
from support.steady_loads import SteadyLoad, steady_load
from support.waiting import within

NAMESPACE = "rolled"
CHAIN, CHANGED_CHAIN = "AlwaysPullImages", "AlwaysPullImages,ExtendedResourceToleration"
OLD, NEW = "old", "new"
SERVICES = ("mutator", "validator")
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


def own_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PRATIQUE_")}


@dataclasses.dataclass(frozen=True, slots=True)
class Release:
    """What the replicas of a release run."""

    chain: str = CHAIN
    environment: Mapping[str, str] = dataclasses.field(default_factory=own_environment)
    program: Sequence[str] = (str(PROGRAM),)


class Rollout:
    """Two replicas of each service, one of each release; every front door knows all mutators and validators."""

    def __init__(self, folder: Path, certificates: Path, new: Release) -> None:
        releases = {OLD: Release(), NEW: new}
        ports = {name: (free_port(), free_port()) for name in ("mutator", "validator", "frontdoor")}
        lists = {name: ",".join(f"127.0.0.1:{port}" for port in pair) for name, pair in ports.items()}
        tls = [f"--tls-cert-file={certificates / 'frontdoor' / 'tls.crt'}"]
        tls += [f"--tls-private-key-file={certificates / 'frontdoor' / 'tls.key'}"]
        further = {
            "frontdoor": [f"--mutator=ipv4:{lists['mutator']}", f"--validator={lists['validator']}", *tls]
        }
        self.ports = ports
        self.certificates = certificates
        self.replicas = {
            (name, age): Replica(
                port,
                [
                    *(*releases[age].program, "serve", name, "--host=127.0.0.1"),
                    *(f"--port={port}", f"--admission-control={releases[age].chain}", "--drain-seconds=1"),
                    *further.get(name, ()),
                ],
                dict(releases[age].environment),
                folder / f"{name}-{port}.log",
            )
            for name, pair in ports.items()
            for port, age in zip(pair, (OLD, NEW), strict=True)
        }

    def start(self, age: str, *services: str) -> None:
        for service in services:
            self.replicas[service, age].start()

    def stop(self, age: str, *services: str) -> None:
        for service in services:
            self.replicas[service, age].stop()

    def calls(self, caller: str, service: str, called: str) -> int:
        """How many calls the front door of one age has made to a service of one age."""
        tls = ssl.create_default_context(cafile=self.certificates / "ca.crt")
        port = self.replicas["frontdoor", caller].port
        with contextlib.closing(http.client.HTTPSConnection("127.0.0.1", port, context=tls)) as connection:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        endpoint = re.escape(f"127.0.0.1:{self.replicas[service, called].port}")
        found = re.search(rf'(?m)^pratique_frontdoor_replica_calls_total{{.*{endpoint}".*}} (\S+)$', text)
        return int(float(found[1])) if found else 0


@pytest.fixture(autouse=True, scope="module")
def _namespace(cluster: Cluster) -> None:
    cluster.api.create_namespace(NAMESPACE, {"variant": UNREGISTERED})


@contextlib.contextmanager
def registered(cluster: Cluster, port: int) -> Iterator[None]:
    """Let the API server call the front doors for one namespace, and refuse what they do not answer."""
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


@contextlib.contextmanager
def begun(cluster: Cluster, rollout: Rollout) -> Iterator[tuple[Forwarder, SteadyLoad, list[bool]]]:
    """The old release, which an API server calls all the while; ends both releases with the block."""
    old, _ = rollout.ports["frontdoor"]
    with contextlib.ExitStack() as running:
        for replica in rollout.replicas.values():
            running.callback(replica.kill)
        rollout.start(OLD, *SERVICES, "frontdoor")
        assert within(60, lambda: cluster.stack.is_ready(old))
        proxy = running.enter_context(Forwarder(("127.0.0.1", free_port()), [old]))
        running.enter_context(registered(cluster, proxy.port))
        with contextlib.closing(cluster.api.client()) as client:
            assert within(60, lambda: "Always" in str(client.ask("POST", PATH, POD).body))
        load, by_new = running.enter_context(creating(cluster))
        yield proxy, load, by_new


def wait_for_more(load: SteadyLoad) -> None:
    wanted = load.answered + 5
    assert within(60, lambda: load.answered >= wanted)


def replace_front_door(cluster: Cluster, rollout: Rollout, proxy: Forwarder) -> None:
    old, new = rollout.ports["frontdoor"]
    rollout.start(NEW, "frontdoor")
    assert within(60, lambda: cluster.stack.is_ready(new))
    proxy.take_in(new)
    proxy.leave_out(old)


def test_no_request_is_lost_while_a_changed_chain_is_rolled_out(cluster: Cluster, tmp_path: Path) -> None:
    rollout = Rollout(tmp_path, cluster.stack.certificates, Release(CHANGED_CHAIN))
    with begun(cluster, rollout) as (proxy, load, by_new):
        rollout.start(NEW, *SERVICES)
        wait_for_more(load)
        assert not any(by_new), "old front doors call nobody of the new chain"
        replace_front_door(cluster, rollout, proxy)
        wait_for_more(load)
        rollout.stop(OLD, "frontdoor")
        wait_for_more(load)
        rollout.stop(OLD, *SERVICES)
        wait_for_more(load)
        assert by_new[-1]


def test_no_request_is_lost_while_a_changed_contract_is_rolled_out(cluster: Cluster, tmp_path: Path) -> None:
    environment = make_next_release(tmp_path / "next")
    new = Release(environment=environment, program=(sys.executable, "-m", "pratique_cli"))
    rollout = Rollout(tmp_path, cluster.stack.certificates, new)
    with begun(cluster, rollout) as (proxy, load, _):
        rollout.start(NEW, *SERVICES)
        for service in SERVICES:
            assert within(60, lambda service=service: rollout.calls(OLD, service, NEW) > 5)  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        replace_front_door(cluster, rollout, proxy)
        rollout.stop(OLD, "frontdoor")
        for service in SERVICES:
            assert within(60, lambda service=service: rollout.calls(NEW, service, OLD) > 5)  # type: ignore[misc]  # likewise
        rollout.stop(OLD, *SERVICES)
        wait_for_more(load)
