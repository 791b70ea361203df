"""A stack in containers, with several validators behind one name, and callers that go on whatever happens to it."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

from docker.models.containers import Container
from docker.models.networks import Network as EngineNetwork
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from support.docker_engine import IMAGE

# What removes forgotten containers is an image of its own, which is not to be had everywhere; here every container
# is removed by the test that started it.
os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")

DENYING = "LimitPodHardAntiAffinityTopology"
"""It validates, and needs nothing but the Pod."""
CALLERS = 4


@dataclasses.dataclass(frozen=True, slots=True)
class ContainedStack:
    """One front door, one mutator, and validators that share a name."""

    port: int
    network: EngineNetwork
    validators: list[Container]


@contextlib.contextmanager
def contained_stack(
    validators: int, chain: str = f"--admission-control={DENYING}"
) -> Iterator[ContainedStack]:
    """Run a stack until the ``with`` ends; ``chain`` is the flag that says what is in the chain."""
    import docker
    from testcontainers.core.network import Network

    with contextlib.ExitStack() as running:
        client = running.enter_context(contextlib.closing(docker.from_env()))
        network = running.enter_context(Network())
        running.enter_context(_contained(network, "mutator", chain, "--port=9001"))
        replicas = [
            running.enter_context(_contained(network, "validator", chain, "--port=9002"))
            for _ in range(validators)
        ]
        door = _contained(
            network,
            "frontdoor",
            chain,
            "--port=8080",
            "--mutator=dns:///mutator:9001",
            "--validator=dns:///validator:9002",
        )
        frontdoor = running.enter_context(door.with_exposed_ports(8080))
        stack = ContainedStack(
            int(frontdoor.get_exposed_port(8080)),
            client.networks.get(network.name),
            [replica.get_wrapped_container() for replica in replicas],
        )
        wait_until_ready(stack.port)
        yield stack


def _contained(network: Network, name: str, *command: str) -> DockerContainer:
    """One service as compose.yaml runs it: no root, no capabilities, nothing to write to."""
    from testcontainers.core.container import DockerContainer

    return (
        DockerContainer(IMAGE)
        .with_command(["serve", name, "--host=0.0.0.0", *command])
        .with_network(network)
        .with_network_aliases(name)
        .with_kwargs(read_only=True, cap_drop=["ALL"], user="65532:65532", security_opt=["no-new-privileges"])
    )


def wait_until_ready(port: int) -> None:
    """Wait until the front door says that all whom it asks are there."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
            with contextlib.closing(connection):
                connection.request("GET", "/readyz")
                if connection.getresponse().status == 200:
                    return
        time.sleep(0.2)
    raise TimeoutError("the stack did not become ready")


def wait_until_healthy(validator: Container) -> None:
    """Wait until a validator reports that it serves, as a rolling restart does before the next one."""
    probe = ["python", "-m", "pratique.rpc.probes", "127.0.0.1:9002"]
    until = time.monotonic() + 120
    while validator.exec_run(probe).exit_code != 0:
        if time.monotonic() > until:
            raise TimeoutError("the validator did not become healthy")


@dataclasses.dataclass(slots=True)
class Asked:
    """What came of asking, over and over, for Pods of which every second one is against the rule."""

    right: int = 0
    """Answers as they ought to be: a decision of the controller."""
    failed_closed: int = 0
    """Denials because nobody could be asked."""
    lost: int = 0
    """Requests without an answer."""
    failed_open: int = 0
    """Pods against the rule that were let through."""
    ended: threading.Event = dataclasses.field(default_factory=threading.Event)


@contextlib.contextmanager
def asking(port: int, timeout: str = "5s") -> Iterator[Asked]:
    """Ask from several sides while the ``with`` lasts; afterwards all answers are counted."""
    asked = Asked()
    callers = [threading.Thread(target=_ask, args=(port, timeout, asked)) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    try:
        yield asked
    finally:
        asked.ended.set()
        for caller in callers:
            caller.join()


def wait_for_more(asked: Asked, number: int) -> None:
    """Wait for that many right answers beside those that have come."""
    wanted, until = asked.right + number, time.monotonic() + 120
    while asked.right < wanted:
        if time.monotonic() > until:
            raise TimeoutError(f"{wanted - asked.right} right answers of {number} did not come")
        time.sleep(0.01)


def _ask(port: int, timeout: str, asked: Asked) -> None:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
        number = 0
        while not asked.ended.is_set():
            number += 1
            against = number % 2 == 1
            try:
                _count(_answer(connection, timeout, against=against), asked, against=against)
            except (OSError, http.client.HTTPException):
                asked.lost += 1
                connection.close()


def _answer(connection: http.client.HTTPConnection, timeout: str, *, against: bool) -> dict[str, Any]:
    body = json.dumps(_review(against=against))
    connection.request("POST", f"/validate?timeout={timeout}", body, {"Content-Type": "application/json"})
    with connection.getresponse() as answer:
        content = answer.read()
    if answer.status != 200:
        return {"status": {"code": answer.status}}
    response: dict[str, Any] = json.loads(content)["response"]
    return response


def _count(response: dict[str, Any], asked: Asked, *, against: bool) -> None:
    if response.get("allowed"):
        asked.failed_open += against
        asked.right += not against
    elif response["status"]["code"] >= 500:
        asked.failed_closed += 1
    else:
        asked.right += against


def _review(*, against: bool) -> dict[str, Any]:
    key = "kubernetes.io/arch" if against else "kubernetes.io/hostname"
    terms: list[dict[str, Any]] = [{"topologyKey": key, "labelSelector": {}}]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"containers": [{"name": "app", "image": "app:1"}], "affinity": affinity},
    }
    request = {
        "uid": "one",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": "web",
        "namespace": "shop",
        "object": pod,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
