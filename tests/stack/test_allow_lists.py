"""A MutationAllowList in a running stack: policies and controllers in every process keep to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.local_stacks import Stack
from support.mutating_policies import applied, bound, mutating
from support.shared_stacks import CHANGING_CHAIN, WAYS, SharedStacks

REVIEW = json.loads((Path(__file__).parents[2] / "bench" / "review.json").read_text())
LABELS = applied('Object{metadata: Object.metadata{labels: {"team": "a", "other": "b"}}}')


def allow_list(name: str, target: Any, field: str) -> Any:
    return {
        "apiVersion": "policy.pratique/v1alpha1",
        "kind": "MutationAllowList",
        "metadata": {"name": name},
        "spec": {"policies": [target], "fields": [field], "violationAction": "Drop"},
    }


def answer(stack: Stack) -> Any:
    return stack.post("/admit", REVIEW)["response"]


@pytest.mark.parametrize("way", WAYS)
def test_what_is_not_listed_is_dropped_and_told(way: str, shared_stacks: SharedStacks) -> None:
    documents = [
        mutating(LABELS),
        bound(),
        allow_list("labels", {"kind": "MutatingAdmissionPolicy", "name": "p"}, "/metadata/labels/team"),
        allow_list(
            "nothing", {"kind": "AdmissionController", "name": "DefaultTolerationSeconds"}, "/metadata"
        ),
    ]
    shared = shared_stacks.of(
        way, CHANGING_CHAIN, *documents, until=lambda stack: len(answer(stack).get("warnings", [])) > 1
    )
    decision = shared.stack.post("/explain?phase=admit", REVIEW)
    response = answer(shared.stack)
    assert [operation["path"] for operation in decision["patch"]] == ["/metadata/labels/team"]
    first_round = [step for step in decision["steps"] if step["round"] == 0]
    assert [step["violation"] for step in first_round if "violation" in step] == [
        {"allowList": "nothing", "action": "Drop"},
        {"allowList": "labels", "action": "Drop"},
    ]
    assert response["allowed"]
    assert 'MutationAllowList "labels" drops the change of /metadata/labels/other' in response["warnings"][1]
