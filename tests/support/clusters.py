"""The stack behind a real API server: what docs/kubernetes.md says was done, with processes in the place of Pods."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support import api_servers
from support.api_clients import Client
from support.api_servers import ApiServer
from support.cluster_webhooks import (
    POLICIES,
    SERVICE_RANGE,
    VARIANTS,
    admission_configuration,
    configurations,
    filled_in,
    service_port,
)
from support.deployed_stacks import DeployedStack, deployed, make_certificates
from support.free_ports import free_port
from support.waiting import within

_PATIENCE_SECONDS = 120
"""In which an API server comes to call new webhooks."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cluster:
    """An API server, and the stack that is its webhooks."""

    api: ApiServer
    stack: DeployedStack
    policies: Path
    """The file of ``--config``."""


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """Run both until the block ends, registered by the Service in most namespaces, and by URL in ``by-url``."""
    certificates = folder / "certs"
    make_certificates(certificates)
    port, ports = service_port(), [free_port(), free_port()]
    # an API server asks for a name without a port only where that is 443
    names = [f"127.0.0.1:{ports[0]}", *([] if port == 443 else [f"pratique.pratique.svc:{port}"])]
    admission = admission_configuration(certificates, names)
    policies = folder / "policies.yaml"
    policies.write_text(POLICIES)
    with api_servers.running(admission=admission, flags={"service-cluster-ip-range": SERVICE_RANGE}) as api:
        address = _apply_stack(api, folder, port)
        with deployed(folder, certificates, (address, port), ports, f"--config={policies}") as stack:
            _register(api, (certificates / "ca.crt").read_bytes(), port, ports[0])
            yield Cluster(api, stack, policies)


def _apply_stack(api: ApiServer, folder: Path, port: int) -> str:
    """Apply the manifests, and return the address that the API server gave the Service."""
    filled = folder / "stack"
    filled_in(filled, port)
    applied = api.kubectl("apply", "--validate=true", "-f", str(filled))
    assert applied.returncode == 0, applied.stderr
    service = api.ask("GET", "/api/v1/namespaces/pratique/services/pratique").body
    address: str = service["spec"]["clusterIP"]
    return address


def _register(api: ApiServer, bundle: bytes, port: int, url_port: int) -> None:
    """Apply the webhooks, and wait until the API server calls them."""
    with contextlib.closing(api.client()) as client:
        for document in configurations(bundle, port, url_port):
            plural = document["kind"].lower() + "s"
            client.must("POST", f"/apis/admissionregistration.k8s.io/v1/{plural}", document)
        for variant in VARIANTS:
            api.create_namespace(variant, {"variant": variant})
            _wait_until_called(client, variant)


def _wait_until_called(client: Client, namespace: str) -> None:
    container = {"name": "app", "image": "app:1", "imagePullPolicy": "Never"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe"},
        "spec": {"containers": [container]},
    }
    answers: list[Any] = []

    def is_mutated() -> bool:
        answers.append(client.ask("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod))
        return answers[-1].code == 201 and "Always" in str(answers[-1].body["spec"]["containers"])

    assert within(_PATIENCE_SECONDS, is_mutated), (namespace, answers[-1])
