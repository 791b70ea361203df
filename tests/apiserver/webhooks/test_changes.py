"""What docs/kubernetes.md promises of upgrades and renewals: no request fails, and none is let through unreviewed."""

from __future__ import annotations

import contextlib
import dataclasses
import ssl
from collections.abc import Iterator

import pytest

from support.clusters import Cluster
from support.deployed_stacks import make_certificates
from support.steady_loads import SteadyLoad, steady_load
from support.waiting import within

PER_SECOND = 10
RELOAD_SECONDS = 120
"""Far more than it takes until a front door shows a new certificate."""


@dataclasses.dataclass(frozen=True, slots=True)
class Creations:
    """What came of creating Pods."""

    load: SteadyLoad
    warnings: set[str]

    def wait_for_more(self) -> None:
        wanted = self.load.answered + 5
        assert within(120, lambda: self.load.answered >= wanted)


@contextlib.contextmanager
def creating(cluster: Cluster) -> Iterator[Creations]:
    """Create Pods all the while; each is admitted as the mutator made it."""
    container = {"name": "app", "image": "app:1", "imagePullPolicy": "IfNotPresent"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [container]},
    }
    warned: set[str] = set()
    with contextlib.closing(cluster.api.client()) as client:

        def create() -> None:
            reply = client.ask("POST", "/api/v1/namespaces/documented/pods?dryRun=All", pod)
            assert reply.code == 201, reply.body
            assert reply.body["spec"]["containers"][0]["imagePullPolicy"] == "Always"
            warned.update(reply.warnings)

        with steady_load(create, PER_SECOND) as load:
            yield Creations(load, warned)


def shown(port: int) -> str:
    return ssl.get_server_certificate(("127.0.0.1", port))


@pytest.mark.parametrize("service", ["mutator", "validator", "frontdoor"])
def test_no_request_fails_while_a_service_is_restarted(cluster: Cluster, service: str) -> None:
    with creating(cluster) as created:
        for index in range(2):
            cluster.stack.restart(service, index)
            created.wait_for_more()


def test_no_request_fails_while_certificates_are_renewed(cluster: Cluster) -> None:
    ports = cluster.stack.ports
    old = {port: shown(port) for port in ports}
    with creating(cluster) as created:
        make_certificates(cluster.stack.certificates, "--host", "renewed.example.com")
        assert within(RELOAD_SECONDS, lambda: all(shown(port) != old[port] for port in ports))
        created.wait_for_more()


def test_no_request_fails_while_policies_change(cluster: Cluster) -> None:
    changed = cluster.policies.read_text().replace("nobody owns it", "nobody owns it yet")
    with creating(cluster) as created:
        created.wait_for_more()
        cluster.policies.write_text(changed)
        assert within(60, lambda: any("nobody owns it yet" in warning for warning in created.warnings))
        created.wait_for_more()
