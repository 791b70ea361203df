"""The Helm chart, rendered and installed by Helm itself, and the kustomization that is made of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import go_programs
from support.api_servers import ApiServer

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm" / "pratique"
RELEASE = "pratique"


def helm(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Helm with files of its own in ``folder``; skips the test where it is not built."""
    binary = go_programs.folder("helm") / "helm"
    if shutil.which(binary) is None:
        pytest.skip("there is no Helm (make helm builds it)")
    homes = {name: str(folder) for name in ("HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
    kept = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    return subprocess.run(
        [str(binary), *words], env=kept | homes, text=True, capture_output=True, check=False
    )


def rendered(folder: Path, *flags: str, namespace: str = RELEASE, hooks: bool = False) -> str:
    """The manifests of the chart with the kustomization's values, and further flags; with hooks, those of its test."""
    common = ("--kube-version=1.37.0", *(() if hooks else ("--no-hooks",)))
    ran = helm(folder, "template", RELEASE, str(CHART), *of(namespace), *common, *flags)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def values_file(folder: Path, values: dict[str, Any]) -> str:
    """The flag that gives Helm further values."""
    (folder / "values.yaml").write_text(yaml.safe_dump(values))
    return f"--values={folder / 'values.yaml'}"


OPERATORS_KINDS = (
    ("monitoring.coreos.com", "ServiceMonitor"),
    ("monitoring.coreos.com", "PrometheusRule"),
    ("cert-manager.io", "Issuer"),
    ("cert-manager.io", "Certificate"),
)


def define_operators_kinds(server: ApiServer) -> None:
    """Make an API server know the kinds of operators that the chart can use, without what is in them."""
    names = {kind: f"{kind.lower()}s" for _, kind in OPERATORS_KINDS}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definitions = [
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{names[kind]}.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"plural": names[kind], "kind": kind},
                "versions": [
                    {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
                ],
            },
        }
        for group, kind in OPERATORS_KINDS
    ]
    flags = ("--server-side", "--force-conflicts", "-f", "-")
    applied = server.kubectl("apply", *flags, stdin=yaml.safe_dump_all(definitions))
    assert applied.returncode == 0, applied.stderr
    waited = server.kubectl(
        "wait",
        "--for=condition=Established",
        "--timeout=60s",
        *(f"crd/{names[kind]}.{group}" for group, kind in OPERATORS_KINDS),
    )
    assert waited.returncode == 0, waited.stderr


def of(namespace: str) -> tuple[str, ...]:
    """The flags that name a namespace and the kustomization's values."""
    return ("--namespace", namespace, "--values", str(DEPLOY / "kustomize" / "values.yaml"))


def access(server: ApiServer) -> tuple[str, ...]:
    """The flags that let Helm reach an API server."""
    return (
        f"--kube-apiserver=https://127.0.0.1:{server.port}",
        f"--kube-ca-file={server.authority}",
        "--kube-token=token-of-admin",
    )


def by_name(text: str) -> dict[tuple[str, str], Any]:
    """Objects of manifests by kind and name."""
    documents = [document for document in yaml.safe_load_all(text) if document]
    return {(document["kind"], document["metadata"]["name"]): document for document in documents}
