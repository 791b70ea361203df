"""Reviews that are made to take long leave the event loop of ``pratique serve all`` to others."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pratique.apimachinery.json_values import JSON, JSONObject
from support.local_stacks import Stack, running_alone

KIB = 1024
STUFFED_BYTES = 256 * KIB
CALLERS = 4
HUGE_GAP = "2.5"
"""Seconds, a bucket of the metric. The loop of a busy machine may rest for a tenth of it; the reviews below took up to
twenty seconds in the loop."""


@pytest.fixture(name="alone", scope="module")
def _alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    cluster = tmp_path_factory.mktemp("alone") / "cluster.yaml"
    runtime_class = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "tolerant"},
        "handler": "runc",
        "scheduling": {"tolerations": [{"key": "other", "operator": "Exists"}]},
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": "shop"},
    }
    cluster.write_text("\n---\n".join(map(json.dumps, (runtime_class, namespace, account))))
    chain = ("--enable-admission-plugins", "ExtendedResourceToleration", "--object-validation", "on")
    with running_alone(*chain, "--cluster", str(cluster)) as stack:
        yield stack


def review(spec: JSONObject, name: str = "web") -> bytes:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"containers": [{"name": "app", "image": "app:1"}], **spec},
    }
    request = {
        "uid": name,
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "shop",
        "name": name,
        "userInfo": {"username": "ann"},
        "object": pod,
    }
    document = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(document, separators=(",", ":")).encode()


def filled(make: Callable[[int], JSON]) -> list[JSON]:
    """As many items as fit into the size of a stuffed review."""
    items: list[JSON] = []
    size = 0
    while size < STUFFED_BYTES:
        items.append(make(len(items)))
        size += len(json.dumps(items[-1], separators=(",", ":"))) + 1
    return items


def toleration(number: int) -> JSON:
    return {"key": f"k{number}", "operator": "Exists"}


def duplicates() -> bytes:
    """A review with a member twice, whose place is looked for."""
    members = ",".join(f'"m{number}":1' for number in range(STUFFED_BYTES // 12))
    return review({"other": None}).replace(b'"other":null', f'"other":{{{members},"m1":1}}'.encode())


STUFFED: dict[str, Callable[[], bytes]] = {
    "tolerations": lambda: review({"runtimeClassName": "tolerant", "tolerations": filled(toleration)}),
    "containers": lambda: review({"containers": filled(lambda _: {})}),
    "duplicates": duplicates,
}


def gaps(stack: Stack) -> Counter[str]:
    """How many gaps of the event loop were as long as each bound of the histogram, or shorter."""
    text = stack.get("/metrics")[1]
    families = {family.name: family for family in text_string_to_metric_families(text)}
    samples = families["pratique_event_loop_gap_seconds"].samples
    return Counter({sample.labels["le"]: int(sample.value) for sample in samples if "le" in sample.labels})


@pytest.mark.parametrize(
    ("shape", "path"),
    [*((shape, "/admit?timeout=2s") for shape in STUFFED), ("tolerations", "/explain?blame=true&timeout=2s")],
)
def test_stuffed_reviews_leave_the_loop_to_others(alone: Stack, shape: str, path: str) -> None:
    body = STUFFED[shape]()
    before = gaps(alone)
    with concurrent.futures.ThreadPoolExecutor(CALLERS) as callers:
        stuffed = [callers.submit(ask, alone, path, body) for _ in range(CALLERS)]
        while not all(one.done() for one in stuffed):
            assert alone.get("/livez") == (200, "ok")
            code, answer = alone.post_bytes("/admit", review({}, "honest"))
            assert code == 200
            assert answer["response"]["allowed"]
    assert {one.result() for one in stuffed} <= {200, 400, 504}
    after = gaps(alone)
    assert after["+Inf"] - before["+Inf"] == after[HUGE_GAP] - before[HUGE_GAP]


def ask(stack: Stack, path: str, body: bytes) -> Any:
    """Post a review; the code of the answer."""
    with contextlib.closing(stack.connect()) as connection:
        return stack.post_bytes(path, body, connection)[0]
