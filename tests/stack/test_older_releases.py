"""A stack that follows an older release, in every service alike."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from support import forked_commands
from support.forked_commands import PROGRAM
from support.local_stacks import Stack, running, running_alone

CHAIN = ("DefaultTolerationSeconds", "AlwaysAdmit")
CLUSTER = """
apiVersion: v1
kind: Namespace
metadata: {name: shop, annotations: {scheduler.kubernetes.io/node-selector: zone=a}}
"""
ALPHA = ["node.alpha.kubernetes.io/notReady", "node.alpha.kubernetes.io/unreachable"]
NEW = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]


def review() -> Any:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"containers": [{"name": "web", "image": "registry.example.com/web"}], "tolerations": []},
    }
    request = {
        "uid": "1",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": "web",
        "namespace": "shop",
        "object": pod,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


@pytest.mark.parametrize(
    ("start", "release", "keys"),
    [(running, "1.8", ALPHA), (running_alone, "1.8", ALPHA), (running_alone, "1.9", NEW)],
)
def test_services_follow_the_configured_release(
    start: Callable[..., AbstractContextManager[Stack]], release: str, keys: list[str]
) -> None:
    with start("--admission-control", CHAIN[0], "--release", release) as stack:
        response = stack.post("/admit", review())["response"]
    values = [load["value"] for load in json.loads(base64.b64decode(response["patch"]))]
    added = [item for value in values for item in (value if isinstance(value, list) else [value])]
    assert [entry["key"] for entry in added] == keys


@pytest.mark.parametrize("command", [("review", "-"), ("check",)], ids=["review", "check"])
def test_settings_unknown_to_the_release_are_reported(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    chain = ("--cluster", str(tmp_path / "cluster.yaml"), "--admission-control", ",".join(CHAIN))
    ran = forked_commands.run([PROGRAM, *command, *chain], input=json.dumps(review()))
    assert ran.returncode == 0
    assert "warning: AlwaysAdmit admission controller is deprecated." in ran.stderr
    warning = 'Namespace "shop": metadata.annotations.scheduler.kubernetes.io/node-selector: no release of Kubernetes'
    assert warning in ran.stderr
