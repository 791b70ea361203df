"""Workloads: the requests, each a function of the seed and its number."""

from __future__ import annotations

import dataclasses
import functools
import json
import random
from typing import Any

from pratique.apimachinery.json_values import JSONObject

PATHS = ("/validate", "/mutate", "/admit", "/admit")
VERSIONS = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
TIMEOUTS = (10.0, 10.0, 10.0, 2.0)
"""Mostly that of a webhook's ``timeoutSeconds`` by default; some have no time to wait for a replica that is frozen."""
REVIEWS = 60
"""How many different reviews there are: so few that the oracle decides each of them in each way once."""
NAMESPACES = ("default", "default", "default", "open", "open", "quiet", "strict", "ghost")
"""``ghost`` is in no cluster, the others are in :data:`chaos.chains.CLUSTER`."""
LARGE_BYTES = (150_000, 150_000, 700_000)
"""Of the largest Pods: more than any buffer on the way, so that connections break amid them, and at times so many that
another process reads them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """One request."""

    number: int
    uid: str
    path: str
    timeout: float
    review: int
    """Which of the reviews; they differ from each other, and requests for the same one in their uid alone."""
    body: JSONObject


@dataclasses.dataclass(frozen=True)
class Workload:
    """All requests that a seed makes."""

    seed: int

    def request(self, number: int) -> Request:
        """The request of a number, independent of earlier ones."""
        chance = random.Random(f"{self.seed}/request/{number}")
        which, uid = chance.randrange(REVIEWS), f"{self.seed}-{number}-{chance.getrandbits(32):08x}"
        review = review_of(self.seed, which)
        body = review | {"request": review["request"] | {"uid": uid}}
        return Request(number, uid, chance.choice(PATHS), chance.choice(TIMEOUTS), which, body)


@functools.cache
def review_of(seed: int, which: int) -> JSONObject:
    """One of the reviews, with a placeholder uid."""
    chance = random.Random(f"{seed}/review/{which}")
    namespace = chance.choice(NAMESPACES)
    operation = chance.choice(["CREATE"] * 6 + ["UPDATE", "DELETE"])
    pod = _pod(chance, f"pod-{which}", namespace)
    request = {
        "uid": f"review-{which}",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": operation,
        "name": pod["metadata"]["name"],
        "namespace": namespace,
        "userInfo": {"username": "jane", "groups": ["system:authenticated"]},
        "object": None if operation == "DELETE" else pod,
        "oldObject": None if operation == "CREATE" else _older(pod),
        "dryRun": chance.random() < 0.2,
    }
    return {"apiVersion": chance.choice(VERSIONS), "kind": "AdmissionReview", "request": request}


def _pod(chance: random.Random, name: str, namespace: str) -> JSONObject:
    annotations = {"chaperone": chance.choice(["yes"] * 6 + ["slow", "no"])}
    if chance.random() < 0.1:
        annotations["large"] = "x" * chance.choice(LARGE_BYTES)
    labels = {"tier": chance.choice(["gold", "silver", "bronze"]), "app": "a/b~c"}
    spec: dict[str, Any] = {"containers": [_container(chance, f"c{n}") for n in range(chance.randint(1, 3))]}
    if chance.random() < 0.1:
        spec["hostNetwork"] = True
    if chance.random() < 0.2:
        spec["priorityClassName"] = chance.choice(["high", "high", "unheard-of"])
    if chance.random() < 0.2:
        spec["tolerations"] = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]
    metadata = {"name": name, "namespace": namespace, "labels": labels, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _container(chance: random.Random, name: str) -> JSONObject:
    image, pull = (
        chance.choice(["web", "web:1", "registry.example/web:2"]),
        chance.choice(["Always"] * 6 + ["Never"]),
    )
    container: dict[str, Any] = {"name": name, "image": image, "imagePullPolicy": pull}
    if chance.random() < 0.5:
        container["resources"] = {"requests": {"cpu": chance.choice(["100m", "1", "1", "9"])}}
    container["securityContext"] = {
        "privileged": chance.random() < 0.15,
        "allowPrivilegeEscalation": chance.random() < 0.3,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    return container


def _older(pod: JSONObject) -> JSONObject:
    old: JSONObject = json.loads(json.dumps(pod))
    old["metadata"]["labels"] = {"tier": "bronze"}
    return old
