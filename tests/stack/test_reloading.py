"""A running stack loads changed files, and keeps the last good content of invalid ones."""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pratique.apimachinery.json_values import JSONObject
from pratique.telemetry.reloading_files import SUSPECT_SECONDS
from support.live_stacks import metric
from support.local_stacks import Stack, running
from support.shared_stacks import CHANGING_CHAIN, WAYS, SharedStack, SharedStacks
from support.shared_stacks import NAMESPACES as NAMESPACES_OF_SHARED_STACKS
from support.waiting import within
from support.webhook_servers import WebhookServer, allowed, denied, serve

REVIEW = json.loads((Path(__file__).parents[2] / "bench" / "review.json").read_text())
IN_LATE = REVIEW | {"request": REVIEW["request"] | {"namespace": "late"}}


@pytest.fixture(name="server", scope="module")
def _server() -> Iterator[WebhookServer]:
    with serve({"/allow": allowed(), "/deny": denied("changed")}) as server:
        yield server


@pytest.fixture(name="shared", scope="module", params=WAYS)
def _shared(
    request: pytest.FixtureRequest, shared_stacks: SharedStacks, server: WebhookServer
) -> SharedStack:
    webhook = configuration(server, "allow")
    return shared_stacks.of(request.param, CHANGING_CHAIN, webhook, until=lambda stack: calls(stack, server))


@pytest.fixture(name="stack")
def _stack(shared: SharedStack) -> Stack:
    return shared.stack


def calls(stack: Stack, server: WebhookServer) -> bool:
    """Whether a Pod is admitted by the webhook."""
    seen = len(server.received)
    return bool(answer(stack)["allowed"]) and len(server.received) > seen


def namespaces(*names: str) -> str:
    documents = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]
    return yaml.safe_dump_all(documents)


def configuration(server: WebhookServer, path: str) -> JSONObject:
    bundle = base64.b64encode(server.ca_bundle).decode()
    pods = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["pods"]}
    webhook = {
        "name": "pods.tests.example.com",
        "clientConfig": {"url": f"{server.url}/{path}", "caBundle": bundle},
        "rules": [pods],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "tests"},
        "webhooks": [webhook],
    }


def answer(stack: Stack, review: Any = REVIEW, path: str = "/validate") -> Any:
    return stack.post(path, review)["response"]


def test_a_changed_configuration_is_loaded(stack: Stack, shared: SharedStack, server: WebhookServer) -> None:
    shared.configure(configuration(server, "deny"))
    assert within(120, lambda: not answer(stack)["allowed"])
    shared.configure(configuration(server, "allow"))
    assert within(120, lambda: bool(answer(stack)["allowed"]))


def test_an_invalid_configuration_leaves_the_last_good_one(
    stack: Stack, shared: SharedStack, server: WebhookServer
) -> None:
    failures = functools.partial(
        metric, stack, "pratique_reloads_total", source="configuration", result="failure"
    )
    before = failures()
    shared.configure({"kind": "Nonsense"})
    assert within(120, lambda: failures() > before)
    assert calls(stack, server)


def test_services_load_a_changed_cluster(stack: Stack, shared: SharedStack) -> None:
    assert answer(stack, IN_LATE, "/mutate")["status"]["message"] == 'namespaces "late" not found'
    shared.use_namespaces(*NAMESPACES_OF_SHARED_STACKS, "late")
    assert within(120, lambda: bool(answer(stack, IN_LATE, "/mutate")["allowed"]))


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
        return "[+]files ok, but: " in self.stack.get("/readyz?verbose")[1]

    def failures(self, source: str) -> float:
        """How often the front door could not use what its files hold."""
        return metric(self.stack, "pratique_reloads_total", source=source, result="failure")


@contextlib.contextmanager
def guarding(folder: Path, *, forked: bool) -> Iterator[Files]:
    """Run a stack with such files in a folder; in a fork they need to rest for half a second only."""
    (folder / "config" / "inner").mkdir(parents=True)
    (folder / "cluster").mkdir()
    (folder / "config" / "inner" / "vetoes.yaml").write_text(FULL)
    (folder / "cluster" / "quota.yaml").write_text(CLUSTER)
    (folder / "cluster" / "namespaces.yaml").write_text(namespaces(*NAMESPACES))
    flags = ("--config", str(folder / "config"), "--cluster", str(folder / "cluster"))
    controllers = "ValidatingAdmissionPolicy,ResourceQuota"
    with running("--validators", "1", "--admission-control", controllers, *flags, forked=forked) as stack:
        yield Files(stack, folder)


@pytest.fixture(name="guarded", scope="module")
def _guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Files]:
    with guarding(tmp_path_factory.mktemp("guarded"), forked=True) as files:
        yield files


@pytest.fixture(name="patient", scope="module")
def _patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Files]:
    """One that waits as long for the rest of a file as any that runs elsewhere."""
    with guarding(tmp_path_factory.mktemp("patient"), forked=False) as files:
        yield files


@pytest.mark.parametrize("content", EMPTIES.values(), ids=EMPTIES.keys())
def test_an_emptied_file_removes_nothing(guarded: Files, content: str) -> None:
    guarded.reset()
    before = {source: guarded.failures(source) for source in ("configuration", "cluster")}
    guarded.config.write_text(content)
    guarded.cluster.write_text(content)
    assert within(120, lambda: all(guarded.failures(source) > count for source, count in before.items()))
    assert guarded.warned()
    time.sleep(1)  # the services may notice later than the front door
    assert [name for name in NAMESPACES if guarded.admitted(name)] == []


@pytest.mark.parametrize("pause", [0.15, 2.0])
@pytest.mark.parametrize("left", [0, len(VETO.format(name="first"))], ids=["nothing", "its first half"])
def test_a_file_rewritten_in_place_allows_nothing(patient: Files, left: int, pause: float) -> None:
    took = MOST_PAUSE_SECONDS
    while took >= MOST_PAUSE_SECONDS:  # a busy machine took so long that the file is taken for whole
        patient.reset()
        begun = time.monotonic()
        with patient.config.open("w") as file:
            file.write(FULL[:left])
            file.flush()
            admitted = asked_for(patient, pause)
            file.write(FULL[left:])
        took = time.monotonic() - begun
    admitted += asked_for(patient, 0.7)  # longer than files have to rest
    assert not any(admitted)


def asked_for(guarded: Files, seconds: float) -> list[bool]:
    """Ask for that long, and at least twice, whether the Pod is admitted that the second half denies."""
    end = time.monotonic() + seconds
    answers = [guarded.admitted("second") for _ in range(2)]
    while time.monotonic() < end:
        answers.append(guarded.admitted("second"))
        time.sleep(0.02)
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
    time.sleep(1)  # longer than files rest that may be half written
    assert not guarded.admitted("second")
