"""Stacks that follow a live cluster: what they say of a Pod, and waiting until that has changed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from support.local_stacks import Stack

_PATIENCE_SECONDS = 120.0


def review(namespace: str, operation: str = "CREATE") -> dict[str, Any]:
    """Make a review of a Pod on the host's network."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"hostNetwork": True, "containers": [{"name": "web", "image": "web:1"}]},
    }
    request = {
        "uid": "1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": operation,
        "name": "web",
        "namespace": namespace,
        "userInfo": {"username": "jane"},
        "object": pod,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def reason(stack: Stack, namespace: str) -> str:
    """Why a Pod on the host's network may not be created in a namespace; empty if it may."""
    code, body = stack.ask("/admit", review(namespace))
    if code != 200:
        return str(body["message"])
    answer = body["response"]
    return "" if answer["allowed"] else answer["status"]["message"]


def wait_for(fact: Callable[[], bool]) -> None:
    """Wait until something is true, which it has to become."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while not fact():
        assert time.monotonic() < until, "it did not come true"
        time.sleep(0.05)


def metric(stack: Stack, name: str, **labels: str) -> float:
    """The sum of a metric over all series that have the labels."""
    series = re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", stack.get("/metrics")[1], re.MULTILINE)
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    return sum(float(value) for given, value in series if all(label in given for label in wanted))
