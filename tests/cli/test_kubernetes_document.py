"""What docs/kubernetes.md shows, executed from top to bottom, except for what needs a cluster."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pratique.https.kubeconfigs import load_kubeconfig
from pratique_frontdoor.webhooks.clients import WebhookCredentials
from support.cluster_manifests import EXAMPLE

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "kubernetes.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
FILES = {name: text for kind, name, text in BLOCKS if kind == "yaml" and name}
OFFLINE = [
    (kind, text)
    for kind, name, text in BLOCKS
    if kind in {"console", "sh"} and not re.search(r"^(\$ )?(kubectl|helm) ", text, re.MULTILINE)
]
"""The commands that the page shows with their output, and those that prepare them."""


def sh(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PRATIQUE_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    return subprocess.run(
        ["sh", "-eu", "-c", script],
        cwd=folder,
        env=kept | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def undated(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\d", "DATE", text)


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[str, str]]]:
    """A folder in which the page was followed; and of each command what it shows, and what it wrote."""
    folder = tmp_path_factory.mktemp("reader")
    shutil.copytree(EXAMPLE, folder / "examples" / EXAMPLE.name)
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    reported = []
    for kind, text in OFFLINE:
        script, _, shown = text.removeprefix("$ ").partition("\n") if kind == "console" else (text, "", "")
        ran = sh(folder, script)
        assert ran.returncode == 0, ran.stderr
        reported.append(
            (shown if kind == "console" else ran.stdout, ran.stdout + ("" if kind == "sh" else ran.stderr))
        )
    return folder, reported


def test_every_command_prints_what_the_page_shows(followed: tuple[Path, list[tuple[str, str]]]) -> None:
    _, reported = followed
    assert len(reported) == 6
    assert [undated(written) for _, written in reported] == [undated(shown) for shown, _ in reported]


def test_the_manifests_have_no_placeholders(followed: tuple[Path, list[tuple[str, str]]]) -> None:
    folder, _ = followed
    text = "".join(file.read_text() for file in [*(folder / "stack").iterdir(), folder / "webhooks.yaml"])
    assert "0" * 64 not in text
    assert "192.0.2" not in text
    assert "CA_BUNDLE" not in text


def test_the_written_webhooks_trust_the_authority_and_match_what_the_policy_does(
    followed: tuple[Path, list[tuple[str, str]]],
) -> None:
    folder, _ = followed
    mutating, validating = yaml.safe_load_all((folder / "trial.yaml").read_text())
    template = next(yaml.safe_load_all((folder / "webhooks.yaml").read_text()))
    trusted = template["webhooks"][0]["clientConfig"]["caBundle"]
    assert mutating["webhooks"][0]["clientConfig"]["caBundle"] == trusted
    matched = {resource for rule in validating["webhooks"][0]["rules"] for resource in rule["resources"]}
    assert matched >= {"pods", "pods/ephemeralcontainers"}


def test_the_first_webhooks_are_for_one_namespace_and_wait_for_nobody(
    followed: tuple[Path, list[tuple[str, str]]],
) -> None:
    folder, _ = followed
    documents = yaml.safe_load_all((folder / "one-namespace.yaml").read_text())
    for webhook in (webhook for document in documents for webhook in document["webhooks"]):
        [expression] = webhook["namespaceSelector"]["matchExpressions"]
        assert (expression["operator"], expression["values"]) == ("In", ["pratique-trial"])
        assert webhook["failurePolicy"] == "Ignore"


def test_secrets_hold_what_pods_mount_and_not_the_api_servers_key(
    followed: tuple[Path, list[tuple[str, str]]],
) -> None:
    folder, _ = followed
    secrets = [item for item in yaml.safe_load_all((folder / "secrets.yaml").read_text()) if item]
    assert {secret["metadata"]["name"] for secret in secrets} == {
        f"pratique-{service}-tls" for service in ("frontdoor", "mutator", "validator")
    }


def test_pods_that_violate_the_namespaces_level_are_denied(
    followed: tuple[Path, list[tuple[str, str]]],
) -> None:
    folder, _ = followed
    bad = (
        (folder / "stack" / "40-validator.yaml")
        .read_text()
        .replace("runAsNonRoot: true", "runAsNonRoot: false")
    )
    (folder / "bad.yaml").write_text(bad)
    ran = sh(
        folder,
        "pratique review --cluster cluster.yaml -o text stack/00-namespace.yaml stack/10-accounts.yaml bad.yaml",
    )
    assert ran.returncode == 1
    assert 'violates PodSecurity "restricted:latest"' in ran.stdout


def test_objects_before_their_namespace_are_denied(followed: tuple[Path, list[tuple[str, str]]]) -> None:
    folder, _ = followed
    ran = sh(
        folder,
        "pratique review --cluster cluster.yaml -o text stack/10-accounts.yaml stack/00-namespace.yaml",
    )
    assert ran.returncode == 1
    assert 'namespaces "pratique" not found' in ran.stdout


def test_webhooks_that_intercept_their_own_server_are_found(
    followed: tuple[Path, list[tuple[str, str]]],
) -> None:
    folder, _ = followed
    (folder / "own.yaml").write_text((folder / "webhooks.yaml").read_text().replace(", pratique]", "]"))
    ran = sh(folder, "pratique check --strict --cluster stack --cluster secrets.yaml own.yaml")
    assert ran.returncode == 1
    assert "error: deadlock" in ran.stderr


def test_certificates_for_another_namespace_are_found(followed: tuple[Path, list[tuple[str, str]]]) -> None:
    folder, _ = followed
    made = "pratique certs other --namespace elsewhere -o yaml | sed 's/namespace: elsewhere/namespace: pratique/'"
    ran = sh(
        folder,
        f"{made} >other.yaml; pratique check --strict --cluster stack --cluster other.yaml webhooks.yaml",
    )
    assert ran.returncode == 1
    assert "serving-certificate-misnamed" in ran.stderr


def test_the_api_server_sends_its_certificate_only_to_the_front_door(
    followed: tuple[Path, list[tuple[str, str]]],
) -> None:
    folder, _ = followed
    configuration = yaml.safe_load(FILES["admission.yaml"])
    files = {plugin["configuration"]["kubeConfigFile"] for plugin in configuration["plugins"]}
    assert files == {"/etc/kubernetes/pratique/kubeconfig"}
    here = folder / "certs" / "kube-apiserver"
    (here / "kubeconfig").write_text(FILES["kubeconfig"].replace("/etc/kubernetes/pratique", str(here)))
    credentials = WebhookCredentials(load_kubeconfig(here / "kubeconfig"), environment={})
    assert credentials.for_target("pratique.pratique.svc:443").certificate is not None
    assert credentials.for_target("other.pratique.svc:443").certificate is None


@pytest.mark.parametrize(
    ("volume", "code"),
    [
        ({"image": {"reference": "tools:1"}}, 1),
        ({"image": {"reference": f"tools@sha256:{'0' * 64}"}}, 0),
        ({"emptyDir": {}}, 0),
    ],
)
def test_the_guard_asks_for_digests_of_images_that_are_volumes(
    tmp_path: Path, volume: dict[str, object], code: int
) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "pratique"},
        "spec": {
            "containers": [{"name": "web", "image": f"web@sha256:{'0' * 64}"}],
            "volumes": [{"name": "tools", **volume}],
        },
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "pratique"}}
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump(namespace))
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(pod))
    ran = sh(
        tmp_path,
        "pratique review --cluster cluster.yaml --assume serviceaccounts"
        f" --config {EXAMPLE / 'stack' / '05-guards.yaml'} pod.yaml",
    )
    assert ran.returncode == code, ran.stderr
    assert ("are volumes are named by their digest" in ran.stdout) is bool(code)
