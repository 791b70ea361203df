"""A local stack asks a second validator when the first one is frozen, and charges a quota once all the same."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.front_doors.reviews import review_document
from support.local_stacks import Stack, running
from support.pods import container, pod
from support.validating_policies import binding, policy
from support.waiting import within

POLICIES = "ValidatingAdmissionPolicy"
PODS = 10
CALLERS = 8
MOST_FREEZES = 300
"""A frozen validator may be avoided before a call reaches it: it is then let go, called, and frozen again."""
RESULT = re.compile(r'^pratique_frontdoor_hedges_total\{.*result="won".*\} (\S+)$', re.MULTILINE)
CALLED = re.compile(r'^pratique_frontdoor_replica_agrees\{.*service="validator".*\} 1\.0$', re.MULTILINE)


def write_inputs(folder: Path) -> tuple[str, ...]:
    """A policy, and a quota of Pods; the flags that use them."""
    (folder / "policies").mkdir()
    documents = [policy("true", name="p"), binding("p", name="b")]
    (folder / "policies" / "policies.yaml").write_text("\n---\n".join(map(json.dumps, documents)))
    hard = {"hard": {"pods": str(PODS)}}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "shop"},
        "spec": hard,
        "status": hard | {"used": {"pods": "0"}},
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    (folder / "cluster.yaml").write_text("\n---\n".join(map(json.dumps, [namespace, quota])))
    chain = ("--admission-control", f"{POLICIES},ResourceQuota")
    return (*chain, "--config", str(folder / "policies"), "--cluster", str(folder / "cluster.yaml"))


def deletion(stack: Stack) -> Any:
    """The decision on deleting a Pod, which no quota is asked about."""
    return _explained(stack, operation="DELETE", oldObject=_pod("gone"), object=None)


def creation(stack: Stack, name: str) -> Any:
    """The decision on creating a Pod with that name."""
    return _explained(stack, uid=name, object=_pod(name))


def _pod(name: str) -> Any:
    made: Any = pod(container(image="web:1"))
    made["metadata"] |= {"name": name, "namespace": "shop"}
    return made


def _explained(stack: Stack, **request: Any) -> Any:
    document = review_document(name="one", namespace="shop", **request)
    return stack.post("/explain?phase=validate&timeout=25s", document)


def said(decisions: list[Any]) -> set[tuple[str, str]]:
    """What the validators said of the policy: no call is made for a request that it does not match."""
    steps = [step for decision in decisions for step in decision["steps"]]
    return {(step["outcome"], step["reason"]) for step in steps if step["controller"] == POLICIES}


def metrics(stack: Stack) -> str:
    """What the front door says of its replicas and of its hedges."""
    _, shown = stack.get("/metrics")
    return "\n".join(re.findall("^pratique_frontdoor_(?:hedges|replica).*", shown, re.MULTILINE))


def won(stack: Stack) -> float:
    """How many calls a second replica answered first."""
    found = RESULT.search(metrics(stack))
    return float(found.group(1)) if found else 0


@contextlib.contextmanager
def frozen(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_second_validator_answers_for_a_frozen_one_and_each_pod_is_charged_once(tmp_path: Path) -> None:
    flags = ("--validators", "2", "--validator-hedge-after", "50ms", *write_inputs(tmp_path))
    decisions: list[Any] = []
    created: list[bool] = []
    with running(*flags) as stack, concurrent.futures.ThreadPoolExecutor(CALLERS) as callers:
        assert within(120, lambda: len(CALLED.findall(metrics(stack))) == 2), metrics(stack)
        for _ in range(MOST_FREEZES):
            with frozen(stack.pids("validator")[1]):
                decisions += callers.map(deletion, [stack] * CALLERS)
                if won(stack):
                    created = [creation(stack, f"p{number}")["allowed"] for number in range(PODS + 1)]
                    break
            decisions += callers.map(deletion, [stack] * CALLERS)
        assert said(decisions) == {("allowed", "")}
        assert won(stack), metrics(stack)
    assert created == [True] * PODS + [False]
