"""Folders of manifests to review: Pods, workloads, Services, ConfigMaps and Secrets, as releases ship them.

Written by a seed, so that every run and every machine reviews the same bytes.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

SEED = 20_261_122
LONGEST_FILE = 40
"""Documents in one file, at most: a chart of an application renders to about as many."""

Manifest = dict[str, Any]


def write_manifests(folder: Path, count: int) -> dict[str, int]:
    """Write ``count`` manifests into a folder, and tell how many of each kind, of files and of bytes there are.

    A third of the files hold one document, the others up to :data:`LONGEST_FILE`; one in five is JSON.
    """
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(SEED)
    made = list(itertools.islice(_manifests(chance), count))
    told = {"files": 0, "bytes": 0, "json": 0}
    rest = iter(made)
    while held := list(itertools.islice(rest, _length(chance))):
        as_json = chance.random() < 0.2
        written = _json(held) if as_json else _yaml(held)
        (folder / f"{told['files']:05}.{'json' if as_json else 'yaml'}").write_text(written)
        told["files"] += 1
        told["bytes"] += len(written)
        told["json"] += as_json * len(held)
    for one in made:
        told[one["kind"]] = told.get(one["kind"], 0) + 1
    return told


def _length(chance: random.Random) -> int:
    return 1 if chance.random() < 1 / 3 else chance.randint(2, LONGEST_FILE)


class _Dumper(yaml.CSafeDumper):
    """Writes as people do: no aliases, and texts of several lines as blocks."""

    def ignore_aliases(self, _data: object) -> bool:
        """Write everything where it stands."""
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _yaml(manifests: list[Manifest]) -> str:
    return yaml.dump_all(manifests, Dumper=_Dumper, sort_keys=False, explicit_start=len(manifests) > 1)


def _json(manifests: list[Manifest]) -> str:
    """One alone as it is, several as a list, both as ``kubectl get -o json`` writes them."""
    whole = manifests[0] if len(manifests) == 1 else {"apiVersion": "v1", "kind": "List", "items": manifests}
    return json.dumps(whole, indent=4) + "\n"


def _manifests(chance: random.Random) -> Iterator[Manifest]:
    """One of each weight after another, at random."""
    kinds: dict[Callable[[random.Random, str], Manifest], int] = {
        _deployment: 30,
        _service: 20,
        _config_map: 20,
        _pod: 15,
        _secret: 15,
    }
    for number in itertools.count():
        (make,) = chance.choices(list(kinds), list(kinds.values()))
        yield make(chance, f"app-{number:05}")


def _pod(chance: random.Random, name: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(chance, name),
        "spec": _pod_spec(chance, name),
    }


def _deployment(chance: random.Random, name: str) -> Manifest:
    labels = {"app.kubernetes.io/name": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(chance, name),
        "spec": {
            "replicas": chance.randint(1, 5),
            "selector": {"matchLabels": labels},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
            "template": {"metadata": {"labels": labels}, "spec": _pod_spec(chance, name)},
        },
    }


def _service(chance: random.Random, name: str) -> Manifest:
    ports = [{"name": "http", "port": 80, "targetPort": chance.choice(["http", 8080]), "protocol": "TCP"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(chance, name),
        "spec": {"type": "ClusterIP", "selector": {"app.kubernetes.io/name": name}, "ports": ports},
    }


def _config_map(chance: random.Random, name: str) -> Manifest:
    lines = "".join(f"{key} = {chance.randint(1, 9999)}\n" for key in ("port", "threads", "queue", "timeout"))
    data = {
        "LOG_LEVEL": chance.choice(["info", "debug"]),
        "REGION": "eu-1",
        "server.conf": f"[server]\n{lines}",
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _metadata(chance, name), "data": data}


def _secret(chance: random.Random, name: str) -> Manifest:
    data = {"username": "YXBw", "password": chance.randbytes(24).hex()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(chance, name),
        "type": "Opaque",
        "data": data,
    }


def _metadata(chance: random.Random, name: str) -> Manifest:
    labels = {
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/version": f"1.{chance.randint(0, 40)}.0",
        "app.kubernetes.io/managed-by": "Helm",
        "helm.sh/chart": f"{name}-0.{chance.randint(1, 9)}.0",
    }
    return {"name": name, "namespace": f"team-{chance.randint(1, 20)}", "labels": labels}


def _pod_spec(chance: random.Random, name: str) -> Manifest:
    containers = [_container(chance, f"{name}-{number}") for number in range(chance.choice([1, 1, 1, 2]))]
    volumes = [{"name": "config", "configMap": {"name": name}}, {"name": "cache", "emptyDir": {}}]
    return {"serviceAccountName": "default", "containers": containers, "volumes": volumes}


def _container(chance: random.Random, name: str) -> Manifest:
    probe = {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 10}
    return {
        "name": name,
        "image": f"registry.example/{name}:1.{chance.randint(0, 40)}.0",
        "ports": [{"name": "http", "containerPort": 8080}],
        "env": [
            {"name": "LOG_LEVEL", "valueFrom": {"configMapKeyRef": {"name": name, "key": "LOG_LEVEL"}}},
            {"name": "THREADS", "value": str(chance.randint(1, 64))},
        ],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {"runAsNonRoot": True, "allowPrivilegeEscalation": False},
        "readinessProbe": probe,
        "livenessProbe": dict(probe),
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/app"},
            {"name": "cache", "mountPath": "/cache"},
        ],
    }
