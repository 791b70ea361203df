"""``pratique snapshot`` and ``pratique review --kubeconfig`` against an API server: both decide alike."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.api_servers import ApiServer, write_kubeconfig
from support.forked_commands import PROGRAM, run

NAMESPACE = "snapshots"
LIMIT = """
apiVersion: v1
kind: LimitRange
metadata: {name: defaults, namespace: snapshots}
spec: {limits: [{type: Container, default: {cpu: 300m}, defaultRequest: {cpu: 100m}}]}
---
apiVersion: v1
kind: Secret
metadata: {name: password, namespace: snapshots}
stringData: {password: hunter2}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: most, namespace: snapshots}
data: {replicas: "2"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replicas.snapshots.example}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}
  validations:
  - {expression: "object.spec.replicas <= int(params.data.replicas)", message: too many replicas}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: replicas.snapshots.example}
spec:
  policyName: replicas.snapshots.example
  paramRef: {name: most, namespace: snapshots, parameterNotFoundAction: Deny}
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: snapshots}}}
"""
MANIFESTS = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: snapshots}
spec: {containers: [{name: web, image: "web:1"}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: snapshots}
spec:
  replicas: 5
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: "web:1"}]}}
"""


def pratique(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run([PROGRAM, *arguments])


@pytest.fixture(name="kubeconfig", scope="module")
def _kubeconfig(api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("snapshots")
    api_server.create_namespace(NAMESPACE)
    (folder / "objects.yaml").write_text(LIMIT)
    applied = api_server.kubectl("apply", "-f", str(folder / "objects.yaml"))
    assert applied.returncode == 0, applied.stderr
    yield write_kubeconfig(api_server, folder)
    api_server.kubectl("delete", "-f", str(folder / "objects.yaml"))


@pytest.fixture(name="manifests")
def _manifests(tmp_path: Path) -> Path:
    file = tmp_path / "manifests.yaml"
    file.write_text(MANIFESTS)
    return file


def decided(ran: subprocess.CompletedProcess[str]) -> list[Any]:
    assert ran.returncode == 1, ran.stderr
    text = re.sub(r"kube-api-access-\w{5}", "kube-api-access", ran.stdout)  # named at random
    documents = [json.loads(line) for line in text.splitlines()]
    return [(one["allowed"], (one["status"] or {}).get("message"), one["patch"]) for one in documents]


def test_a_review_by_a_live_cluster_and_by_its_snapshot_decide_alike(
    kubeconfig: Path, manifests: Path, tmp_path: Path
) -> None:
    named = ["--kubeconfig", str(kubeconfig), "--context", "test"]
    live = decided(pratique("review", "-o", "jsonl", *named, manifests))
    folder = tmp_path / "state"
    made = pratique("snapshot", *named, "--folder", folder)
    assert (made.returncode, made.stdout) == (0, ""), made.stderr
    state = ["--cluster", f"{folder}/cluster.yaml", "--config", f"{folder}/config.yaml"]
    assert decided(pratique("review", "-o", "jsonl", *state, manifests)) == live
    (pod_allowed, _, patch), (deployment_allowed, message, _) = live
    assert (pod_allowed, deployment_allowed) == (True, False)
    assert any(operation.get("value") == "100m" or "100m" in str(operation) for operation in patch)
    assert "too many replicas" in message


def test_a_snapshot_on_standard_output_holds_no_secret(kubeconfig: Path) -> None:
    ran = pratique("snapshot", "--kubeconfig", kubeconfig, "--context", "test")
    assert ran.returncode == 0, ran.stderr
    found = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(ran.stdout)}
    assert "data" not in found["Secret", "password"]
    assert found["ConfigMap", "most"]["data"] == {"replicas": "2"}
    assert list(found)[-1][0] == "ValidatingAdmissionPolicyBinding"
    assert "hunter2" not in ran.stdout
    assert "managedFields" not in ran.stdout


@pytest.mark.parametrize("command", [["snapshot"], ["review", "{manifests}"]])
def test_a_cluster_that_cannot_be_read_is_one_clear_error(
    api_server: ApiServer, command: list[str], manifests: Path, tmp_path: Path
) -> None:
    refused = write_kubeconfig(api_server, tmp_path, "developer")
    words = [word.format(manifests=manifests) for word in command]
    ran = pratique(*words, "--kubeconfig", refused, "--context", "test")
    assert (ran.returncode, ran.stdout) == (2, "")
    (line,) = ran.stderr.splitlines()
    assert "customresourcedefinitions.apiextensions.k8s.io of the live cluster cannot be listed" in line


def test_a_context_needs_a_kubeconfig(manifests: Path) -> None:
    ran = pratique("review", "--context", "test", manifests)
    assert ran.returncode == 2
    assert "give --kubeconfig, too" in ran.stderr


@pytest.mark.parametrize("command", ["snapshot", "doctor"])
def test_without_any_kubeconfig_one_line_says_what_to_give(command: str, tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    ran = run([PROGRAM, command], env=kept | {"HOME": str(tmp_path)})
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "pratique: there is no kubeconfig: give --kubeconfig FILE, or set KUBECONFIG\n"


@pytest.mark.parametrize(
    "text", ["", "[]", "clusters: 3", "users: [{name: a, user: {token: hidden-token}}", "\x00"]
)
def test_a_malformed_kubeconfig_is_one_line_without_its_content(
    text: str, manifests: Path, tmp_path: Path
) -> None:
    (tmp_path / "kubeconfig").write_text(text)
    ran = pratique("review", "--kubeconfig", tmp_path / "kubeconfig", manifests)
    assert (ran.returncode, ran.stdout) == (2, "")
    (line,) = ran.stderr.splitlines()
    assert f"the kubeconfig {tmp_path / 'kubeconfig'} cannot be used: " in line
    assert "hidden-token" not in line
    assert "NoneType" not in line
