"""The Helm chart, rendered and installed by Helm itself, and the kustomization that is made of it."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import go_programs
from support.api_servers import ApiServer

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm" / "pratique"
RELEASE = "pratique"
WITHOUT_SCHEMAS = ("--disable-openapi-validation",)
"""Saves Helm and the API server the document of all kinds; what the server takes, it validates by itself."""


def helm(*words: str, values: Mapping[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    """Run Helm, with values for ``--values=-``; skips the test where it is not built."""
    binary = go_programs.folder("helm") / "helm"
    if shutil.which(binary) is None:
        pytest.skip("there is no Helm (make helm builds it)")
    homes = dict.fromkeys(("HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"), _home())
    kept = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    return subprocess.run(
        [str(binary), *words],
        env=kept | homes | {"GOGC": "off"},
        input=json.dumps(values),
        text=True,
        capture_output=True,
        check=False,
    )


@functools.cache
def _home() -> str:
    """A folder for what Helm keeps, such as what an API server has told it of its kinds."""
    folder = tempfile.mkdtemp(prefix="pratique-helm-")
    atexit.register(shutil.rmtree, folder)
    return folder


def rendered(
    values: Mapping[str, Any] | None = None, *flags: str, namespace: str = RELEASE, hooks: bool = False
) -> str:
    """The manifests of the chart with the kustomization's values and others, and further flags.

    Without hooks, those of its test are left out.
    """
    return _rendered(json.dumps(values or {}), (*of(namespace), *(() if hooks else ("--no-hooks",)), *flags))


@functools.cache
def _rendered(values: str, flags: tuple[str, ...]) -> str:
    ran = _template(json.loads(values), *flags)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def refusal(values: Mapping[str, Any]) -> str:
    """What Helm says of values that the chart refuses."""
    ran = _template(values, *of(RELEASE))
    assert ran.returncode == 1
    return ran.stderr


def _template(values: Mapping[str, Any], *flags: str) -> subprocess.CompletedProcess[str]:
    words = ("template", RELEASE, str(CHART), "--kube-version=1.37.0", *flags, "--values=-")
    return helm(*words, values=values)


OPERATORS_KINDS = (
    ("monitoring.coreos.com", "ServiceMonitor"),
    ("monitoring.coreos.com", "PrometheusRule"),
    ("cert-manager.io", "Issuer"),
    ("cert-manager.io", "Certificate"),
)


@functools.cache
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
    documents = [document for document in yaml.load_all(text, yaml.CSafeLoader) if document]
    return {(document["kind"], document["metadata"]["name"]): document for document in documents}
