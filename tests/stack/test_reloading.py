"""A running stack takes up what changes in its files, and keeps the last good of what cannot be used."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from stacks import Stack, running
from waiting import within
from webhook_servers import WebhookServer, allowed, denied, serve

if TYPE_CHECKING:
    from collections.abc import Iterator

REVIEW = json.loads((Path(__file__).parents[2] / "bench" / "review.json").read_text())
IN_SHOP = REVIEW | {"request": REVIEW["request"] | {"namespace": "shop"}}


@pytest.fixture(name="server", scope="module")
def _server() -> Iterator[WebhookServer]:
    with serve({"/allow": allowed(), "/deny": denied("changed")}) as server:
        yield server


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stack")


@pytest.fixture(name="stack", scope="module")
def _stack(folder: Path, server: WebhookServer) -> Iterator[Stack]:
    configure(folder, server, "allow")
    (folder / "cluster.yaml").write_text(namespaces("default", "shop"))
    flags = ("--config", str(folder / "config.yaml"), "--cluster", str(folder / "cluster.yaml"))
    controllers = "NamespaceLifecycle,ValidatingAdmissionWebhook"
    with running("--validators", "1", "--admission-control", controllers, *flags) as stack:
        yield stack


def namespaces(*names: str) -> str:
    documents = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]
    return yaml.safe_dump_all(documents)


def configure(folder: Path, server: WebhookServer, path: str) -> None:
    bundle = base64.b64encode(server.ca_bundle).decode()
    pods = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["pods"]}
    webhook = {
        "name": "pods.tests.example.com",
        "clientConfig": {"url": f"{server.url}/{path}", "caBundle": bundle},
        "rules": [pods],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    document = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "tests"},
        "webhooks": [webhook],
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(document))


def answer(stack: Stack, review: Any = REVIEW, path: str = "/validate") -> Any:
    return stack.post(path, review)["response"]


def test_a_changed_configuration_is_taken_up(stack: Stack, folder: Path, server: WebhookServer) -> None:
    assert answer(stack)["allowed"]
    configure(folder, server, "deny")
    assert within(20, lambda: not answer(stack)["allowed"])
    configure(folder, server, "allow")
    assert within(20, lambda: bool(answer(stack)["allowed"]))


def test_a_configuration_that_cannot_be_used_leaves_the_last_good_one(
    stack: Stack, folder: Path, server: WebhookServer
) -> None:
    (folder / "config.yaml").write_text("kind: Nonsense\n")
    time.sleep(1.5)  # longer than it takes to notice a change
    seen = len(server.received)
    assert answer(stack)["allowed"]
    assert len(server.received) == seen + 1


def test_a_changed_cluster_is_taken_up_by_the_services(stack: Stack, folder: Path) -> None:
    assert answer(stack, IN_SHOP, "/mutate")["allowed"]
    (folder / "cluster.yaml").write_text(namespaces("default"))
    assert within(20, lambda: not answer(stack, IN_SHOP, "/mutate")["allowed"])
    assert answer(stack, IN_SHOP, "/mutate")["status"]["message"] == 'namespaces "shop" not found'
