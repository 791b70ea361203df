"""``--authorizer cluster`` against a real API server: what users may do is what that says, by its own RBAC."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import local_stacks
from support.api_servers import ApiServer, write_kubeconfig
from support.connection_forwarders import Forwarder
from support.forked_commands import PROGRAM, run
from support.free_ports import free_port
from support.live_stacks import metric, review, wait_for
from support.local_stacks import Stack
from support.role_bindings import binding, role_of, rule

RBAC = "/apis/rbac.authorization.k8s.io/v1"
NAMESPACE, ROBOT = "asked", "system:serviceaccount:default:default"
RULES = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: makers.example.com}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations:
  - expression: "authorizer.group('').resource('pods').check('create').allowed()"
    messageExpression: "request.userInfo.username + ' makes no Pods'"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: makers.example.com}
spec: {policyName: makers.example.com, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: readers.example.com}
webhooks:
- name: readers.example.com
  clientConfig: {url: "https://127.0.0.1:1/"}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  matchConditions: [{name: reads, expression: "authorizer.group('').resource('secrets').check('list').allowed()"}]
  sideEffects: None
  admissionReviewVersions: [v1]
"""


def kubectl(server: ApiServer, *words: str, stdin: str | None = None) -> None:
    done = server.kubectl(*words, stdin=stdin)
    assert done.returncode == 0, done.stderr


def pratique(*words: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return run([PROGRAM, *words], input=stdin)


@pytest.fixture(name="config", scope="module")
def _config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("access") / "rules.yaml"
    path.write_text(RULES)
    return path


@pytest.fixture(name="network", scope="module")
def _network(api_server: ApiServer) -> Iterator[Forwarder]:
    with Forwarder(("127.0.0.1", free_port()), [api_server.port]) as network:
        yield network


@pytest.fixture(name="kubeconfig", scope="module")
def _kubeconfig(api_server: ApiServer, network: Forwarder, config: Path) -> Iterator[Path]:
    """A user with the roles that ``pratique rules`` writes, and no others."""
    api_server.create_namespace(NAMESPACE)
    named = ("--service", f"{NAMESPACE}/{NAMESPACE}")
    roles = pratique("rules", "--rbac", "--authorizer", "cluster", "--config", config, *named)
    assert roles.returncode == 0, roles.stderr
    assert "rolebindings" not in roles.stdout
    kubectl(api_server, "apply", "-f", "-", stdin=roles.stdout)
    services = ("frontdoor", "mutator", "validator")
    with contextlib.closing(api_server.client()) as client:
        for service in services:
            bound = binding(f"asking-{service}", f"ClusterRole/{NAMESPACE}-{service}", f"User/{ROBOT}")
            client.must("POST", f"{RBAC}/clusterrolebindings", bound)
    # the client takes a path with colons for several
    yield write_kubeconfig(api_server, config.parent, ROBOT, network.port).rename(
        config.parent / "kubeconfig"
    )
    with contextlib.closing(api_server.client()) as client:
        for name in (f"{prefix}-{service}" for service in services for prefix in ("asking", NAMESPACE)):
            client.must("DELETE", f"{RBAC}/clusterrolebindings/{name}")
        for service in services:
            client.must("DELETE", f"{RBAC}/clusterroles/{NAMESPACE}-{service}")


@pytest.fixture(name="stack", scope="module")
def _stack(kubeconfig: Path, config: Path) -> Iterator[Stack]:
    asking = ("--authorizer", "cluster", "--authorization-webhook-cache-unauthorized-ttl", "200ms")
    live = ("--kubeconfig", str(kubeconfig), "--context", "test")
    with local_stacks.running_alone(*live, *asking, "--config", str(config)) as stack:
        yield stack


@contextlib.contextmanager
def granted(server: ApiServer, user: str, verb: str, resource: str, group: str = "") -> Iterator[None]:
    """Let a user do something in the whole cluster until the block ends."""
    name = f"{user}-{verb}-{resource}"
    role = role_of(name, rule([verb], groups=[group], resources=[resource]))
    bound = binding(name, f"ClusterRole/{name}", f"User/{user}")
    with contextlib.closing(server.client()) as client:
        client.must("POST", f"{RBAC}/clusterroles", role)
        client.must("POST", f"{RBAC}/clusterrolebindings", bound)
        try:
            yield
        finally:
            client.must("DELETE", f"{RBAC}/clusterrolebindings/{name}")
            client.must("DELETE", f"{RBAC}/clusterroles/{name}")


def asked_by(user: str) -> dict[str, Any]:
    found = review(NAMESPACE)
    found["request"]["userInfo"] = {"username": user, "groups": ["system:authenticated"]}
    return found


def refusal(stack: Stack, request: dict[str, Any]) -> str:
    answer = stack.post("/admit", request)["response"]
    return "" if answer["allowed"] else answer["status"]["message"]


def test_a_policy_asks_the_api_server_and_remembers_what_it_allows(
    api_server: ApiServer, stack: Stack
) -> None:
    assert "ann makes no Pods" in refusal(stack, asked_by("ann"))
    with granted(api_server, "ann", "create", "pods"):
        wait_for(lambda: not refusal(stack, asked_by("ann")))
        asked = metric(stack, "pratique_access_reviews_total", decision="allowed")
        hits = metric(stack, "pratique_access_review_cache_hits_total")
    assert refusal(stack, asked_by("ann")) == ""
    assert metric(stack, "pratique_access_reviews_total", decision="allowed") == asked
    assert metric(stack, "pratique_access_review_cache_hits_total") > hits


def test_a_match_condition_asks_the_api_server(api_server: ApiServer, stack: Stack) -> None:
    with granted(api_server, "bob", "create", "pods"), granted(api_server, "bob", "list", "secrets"):
        wait_for(lambda: 'failed calling webhook "readers.example.com"' in refusal(stack, asked_by("bob")))


def approval(user: str) -> dict[str, Any]:
    document = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "csr"},
        "spec": {"signerName": "example.com/any", "request": "", "usages": ["client auth"]},
    }
    request = {
        "uid": "2",
        "kind": {"group": "certificates.k8s.io", "version": "v1", "kind": "CertificateSigningRequest"},
        "resource": {"group": "certificates.k8s.io", "version": "v1", "resource": "certificatesigningrequests"},
        "subResource": "approval",
        "operation": "UPDATE",
        "name": "csr",
        "userInfo": {"username": user},
        "object": document,
        "oldObject": document,
    }  # fmt: skip
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def test_a_controller_asks_the_api_server(api_server: ApiServer, stack: Stack) -> None:
    assert "user not permitted to approve" in refusal(stack, approval("eve"))
    with granted(api_server, "eve", "approve", "signers", "certificates.k8s.io"):
        wait_for(lambda: not refusal(stack, approval("eve")))


def test_a_review_offline_asks_the_api_server(api_server: ApiServer, config: Path, tmp_path: Path) -> None:
    words = ("review", "-", "--config", config, "--context", "test", "--authorizer", "cluster")
    kubeconfig = write_kubeconfig(api_server, tmp_path)
    head, spec = "{apiVersion: v1, kind: Pod", "{containers: [{name: a, image: a}]}"
    pod = f"{head}, metadata: {{name: a, namespace: {NAMESPACE}}}, spec: {spec}}}"
    with granted(api_server, "tim", "create", "pods"):
        for user, code in (("tim", 0), ("tom", 1)):
            ran = pratique(*words, "--kubeconfig", kubeconfig, "--user", user, stdin=pod)
            assert ran.returncode == code, ran.stdout + ran.stderr
    assert "tom makes no Pods" in ran.stdout


def test_who_cannot_be_asked_about_is_refused_while_the_api_server_is_away(
    api_server: ApiServer, stack: Stack, network: Forwarder
) -> None:
    with granted(api_server, "zoe", "create", "pods"):
        wait_for(lambda: not refusal(stack, asked_by("zoe")))
        with granted(api_server, "max", "create", "pods"):
            network.leave_out(api_server.port)
            network.take_in(1)
            network.break_connections()
            assert "max makes no Pods" in refusal(stack, asked_by("max"))
            assert "user not permitted to approve" in refusal(stack, approval("max"))
            assert metric(stack, "pratique_access_reviews_total", decision="error") > 0
            assert refusal(stack, asked_by("zoe")) == ""
            network.leave_out(1)
            network.take_in(api_server.port)
            wait_for(lambda: not refusal(stack, asked_by("max")))
