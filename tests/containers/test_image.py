"""The image serves a stack, each service in a container of its own.

Skipped, and said so, where no Docker engine runs or the image is not built: ``make image``.
"""

from __future__ import annotations

import http.client
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engines import IMAGE, why_not

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testcontainers.core.container import DockerContainer
    from testcontainers.core.network import Network

VALIDATING = "LimitPodHardAntiAffinityTopology"
REVIEW = (Path(__file__).parents[2] / "examples" / "review.json").read_bytes()

# What removes forgotten containers is an image of its own, which is not to be had everywhere; here every container
# is removed by the test that started it.
os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")


WHY_NOT = why_not(IMAGE)
pytestmark = [
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "there is all it needs"),
    pytest.mark.xdist_group("containers"),
]


def contained(network: Network, name: str, *command: str) -> DockerContainer:
    """One service as compose.yaml runs it: no root, no capabilities, nothing to write to."""
    from testcontainers.core.container import DockerContainer

    return (
        DockerContainer(IMAGE)
        .with_command(["serve", name, "--host=0.0.0.0", f"--enable-admission-plugins={VALIDATING}", *command])
        .with_network(network)
        .with_network_aliases(name)
        .with_kwargs(read_only=True, cap_drop=["ALL"], user="65532:65532", security_opt=["no-new-privileges"])
    )


@pytest.fixture(name="port", scope="module")
def _port() -> Iterator[int]:
    from testcontainers.core.network import Network

    with (
        Network() as network,
        contained(network, "mutator", "--port=9001"),
        contained(network, "validator", "--port=9002"),
        contained(
            network,
            "frontdoor",
            "--port=8080",
            "--mutator=dns:///mutator:9001",
            "--validator=dns:///validator:9002",
        ).with_exposed_ports(8080) as frontdoor,
    ):
        yield int(frontdoor.get_exposed_port(8080))


def ask(port: int, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content


def wait_until_ready(port: int) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            if ask(port, "GET", "/readyz")[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.2)
    pytest.fail("the stack did not become ready")


def test_a_review_is_answered_with_a_patch(port: int) -> None:
    wait_until_ready(port)
    code, content = ask(port, "POST", "/admit", REVIEW)
    response = json.loads(content)["response"]
    assert (code, response["allowed"]) == (200, True)
    assert response["patchType"] == "JSONPatch"


def test_both_services_are_asked(port: int) -> None:
    wait_until_ready(port)
    steps = json.loads(ask(port, "POST", "/explain", REVIEW)[1])["steps"]
    asked = {step["endpoint"].rpartition("/")[2] for step in steps if step["outcome"] != "skipped"}
    assert asked == {"mutator:9001", "validator:9002"}
