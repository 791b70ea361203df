"""A running stack loads changed files, and keeps the last good content of invalid ones."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pratique.telemetry.reloading_files import SUSPECT_SECONDS
from support.local_stacks import Stack, running, running_alone
from support.waiting import within
from support.webhook_servers import WebhookServer, allowed, denied, serve

REVIEW = json.loads((Path(__file__).parents[2] / "bench" / "review.json").read_text())
IN_SHOP = REVIEW | {"request": REVIEW["request"] | {"namespace": "shop"}}


@pytest.fixture(name="server", scope="module")
def _server() -> Iterator[WebhookServer]:
    with serve({"/allow": allowed(), "/deny": denied("changed")}) as server:
        yield server


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stack")


@pytest.fixture(name="stack", scope="module", params=[running, running_alone])
def _stack(request: pytest.FixtureRequest, folder: Path, server: WebhookServer) -> Iterator[Stack]:
    configure(folder, server, "allow")
    (folder / "cluster.yaml").write_text(namespaces("default", "shop"))
    flags = ("--config", str(folder / "config.yaml"), "--cluster", str(folder / "cluster.yaml"))
    controllers = "NamespaceLifecycle,ValidatingAdmissionWebhook"
    with request.param("--admission-control", controllers, *flags) as stack:
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


def test_a_changed_configuration_is_loaded(stack: Stack, folder: Path, server: WebhookServer) -> None:
    assert answer(stack)["allowed"]
    configure(folder, server, "deny")
    assert within(120, lambda: not answer(stack)["allowed"])
    configure(folder, server, "allow")
    assert within(120, lambda: bool(answer(stack)["allowed"]))


def test_an_invalid_configuration_leaves_the_last_good_one(
    stack: Stack, folder: Path, server: WebhookServer
) -> None:
    (folder / "config.yaml").write_text("kind: Nonsense\n")
    time.sleep(1.5)  # longer than it takes to notice a change
    seen = len(server.received)
    assert answer(stack)["allowed"]
    assert len(server.received) == seen + 1


def test_services_load_a_changed_cluster(stack: Stack, folder: Path) -> None:
    assert answer(stack, IN_SHOP, "/mutate")["allowed"]
    (folder / "cluster.yaml").write_text(namespaces("default"))
    assert within(120, lambda: not answer(stack, IN_SHOP, "/mutate")["allowed"])
    assert answer(stack, IN_SHOP, "/mutate")["status"]["message"] == 'namespaces "shop" not found'


VETO = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: {name}}}
spec:
  matchConstraints:
    resourceRules: [{{operations: ["*"], apiGroups: [""], apiVersions: ["*"], resources: [pods]}}]
  validations: [{{expression: "object.metadata.namespace != '{name}'", message: not in {name}}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: {name}}}
spec: {{policyName: {name}, validationActions: [Deny]}}
"""
FULL = VETO.format(name="first") + "---\n" + VETO.format(name="second")
CLUSTER = """\
apiVersion: v1
kind: ResourceQuota
metadata: {name: no-pods, namespace: third}
spec: {hard: {pods: "0"}}
"""
NAMESPACES = ("first", "second", "third")
MOST_PAUSE_SECONDS = SUSPECT_SECONDS - 1
EMPTIES = {"nothing": "", "blanks": " \n\n", "comment": "# later\n", "marker": "---\n", "null": "null\n"}


class Files:
    """A stack by whose files no Pod is admitted, in either of three namespaces, and those files."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        self.stack = stack
        self.config = folder / "config" / "inner" / "vetoes.yaml"
        self.cluster = folder / "cluster" / "quota.yaml"

    def reset(self) -> None:
        self.config.write_text(FULL)
        self.cluster.write_text(CLUSTER)
        assert within(120, lambda: not self.warned() and not any(map(self.admitted, NAMESPACES)))

    def admitted(self, namespace: str) -> bool:
        request = REVIEW["request"]
        placed = request["object"] | {"metadata": request["object"]["metadata"] | {"namespace": namespace}}
        review = REVIEW | {"request": request | {"namespace": namespace, "object": placed}}
        return bool(answer(self.stack, review)["allowed"])

    def warned(self) -> bool:
        connection = self.stack.connect()
        connection.request("GET", "/readyz?verbose")
        text = connection.getresponse().read().decode()
        connection.close()
        return "[+]files ok, but: " in text


@pytest.fixture(name="guarded", scope="module")
def _guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Files]:
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "config" / "inner").mkdir(parents=True)
    (folder / "cluster").mkdir()
    (folder / "config" / "inner" / "vetoes.yaml").write_text(FULL)
    (folder / "cluster" / "quota.yaml").write_text(CLUSTER)
    (folder / "cluster" / "namespaces.yaml").write_text(namespaces(*NAMESPACES))
    flags = ("--config", str(folder / "config"), "--cluster", str(folder / "cluster"))
    controllers = "ValidatingAdmissionPolicy,ResourceQuota"
    with running("--validators", "1", "--admission-control", controllers, *flags) as stack:
        yield Files(stack, folder)


@pytest.mark.parametrize("content", EMPTIES.values(), ids=EMPTIES.keys())
@pytest.mark.parametrize("emptied", ["config", "cluster"])
def test_an_emptied_file_removes_nothing(guarded: Files, emptied: str, content: str) -> None:
    guarded.reset()
    file: Path = getattr(guarded, emptied)
    file.write_text(content)
    assert within(120, guarded.warned)
    time.sleep(1)  # the services may notice later than the front door
    assert [name for name in NAMESPACES if guarded.admitted(name)] == []


@pytest.mark.parametrize("pause", [0.15, 2.0])
@pytest.mark.parametrize("left", [0, len(VETO.format(name="first"))], ids=["nothing", "its first half"])
def test_a_file_rewritten_in_place_allows_nothing(guarded: Files, left: int, pause: float) -> None:
    rounds = 0
    while rounds < 3:
        guarded.reset()
        begun = time.monotonic()
        with guarded.config.open("w") as file:
            file.write(FULL[:left])
            file.flush()
            admitted = asked_for(guarded, pause)
            file.write(FULL[left:])
        if time.monotonic() - begun > MOST_PAUSE_SECONDS:
            continue  # a busy machine took so long that the file is taken for whole
        admitted += asked_for(guarded, 0.7)  # longer than files have to rest
        assert not any(admitted)
        rounds += 1


def asked_for(guarded: Files, seconds: float) -> list[bool]:
    """Ask for that long, and at least twice, whether the Pod is admitted that the second half denies."""
    end = time.monotonic() + seconds
    answers = [guarded.admitted("second") for _ in range(2)]
    while time.monotonic() < end:
        answers.append(guarded.admitted("second"))
    return answers


def without_the_second(guarded: Files) -> None:
    guarded.config.write_text(VETO.format(name="first"))


def an_empty_list(guarded: Files) -> None:
    guarded.config.write_text("apiVersion: v1\nkind: List\nitems: []\n")


def another_file_instead(guarded: Files) -> None:
    (guarded.config.parent / "more.yaml").write_text(VETO.format(name="first"))
    guarded.config.unlink()


@pytest.mark.parametrize("edit", [without_the_second, an_empty_list, another_file_instead])
def test_a_removed_configuration_is_gone(guarded: Files, edit: Callable[[Files], None]) -> None:
    guarded.reset()
    edit(guarded)
    assert within(120, lambda: guarded.admitted("second"))
    assert guarded.admitted("first") is (edit is an_empty_list)
    (guarded.config.parent / "more.yaml").unlink(missing_ok=True)


def test_an_emptied_folder_removes_nothing(guarded: Files) -> None:
    guarded.reset()
    guarded.config.unlink()
    assert within(120, guarded.warned)
    time.sleep(6)  # longer than files rest that may be half written
    assert not guarded.admitted("second")
