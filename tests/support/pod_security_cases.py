"""Kubernetes' own cases of the Pod Security Standards, and a cluster with a namespace for each level and version."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path

from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ObjectStore
from pratique.controllers.pod_security.pods import NEWEST

_FOLDER = Path(__file__).parents[1] / "data" / "pod_security"


@functools.cache
def cases(file: str) -> tuple[JSONObject, ...]:
    """The cases of a file."""
    return tuple(json.loads(line) for line in (_FOLDER / file).read_text("utf-8").splitlines())


def title(case: JSONObject) -> str:
    """What a case is called in a test report."""
    since = f"-v1.{case['from']}" if "from" in case else ""
    return f"{case['case']}{since}"


def namespace_of(level: str, minor: int) -> str:
    """The namespace that is held to a level of a release."""
    return f"{level}-1-{minor}"


def labelled(name: str, **labels: str) -> JSONObject:
    """A Namespace with labels of PodSecurity: ``enforce``, ``enforce_version`` and so on."""
    written = {f"pod-security.kubernetes.io/{key.replace('_', '-')}": value for key, value in labels.items()}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": written}}


def _namespaces() -> Iterator[JSONObject]:
    for level in ("baseline", "restricted"):
        for minor in range(NEWEST + 1):
            name, version = namespace_of(level, minor), f"v1.{minor}"
            yield labelled(name, enforce=level, enforce_version=version, warn=level, warn_version=version)


@functools.cache
def cluster() -> ObjectStore:
    """A cluster with a namespace for each level of each release, which refuses and warns of the same."""
    accounts = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}}
        for name in (each["metadata"]["name"] for each in _namespaces())
    ]
    return ObjectStore([*_namespaces(), *accounts])


def pod_request(pod: JSONObject, namespace: str, **members: object) -> JSONObject:
    """The request that creates a Pod, or does with it what ``members`` say."""
    return {
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": namespace,
        "name": "test",
        "object": pod,
        **members,
    }


def deployment_request(pod: JSONObject, namespace: str, **members: object) -> JSONObject:
    """The request that creates a Deployment of such Pods."""
    template = {name: pod[name] for name in ("metadata", "spec") if name in pod}
    return {
        "operation": "CREATE",
        "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
        "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "namespace": namespace,
        "name": "test",
        "object": {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": template}},
        **members,
    }
