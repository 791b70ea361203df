"""Policies in a running stack: real services, real files that change."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pratique.apimachinery.json_values import JSONObject
from support.local_stacks import Stack, running, running_alone
from support.mutating_policies import bound, labelled, mutating
from support.validating_policies import binding, policy
from support.waiting import within

REVIEW = json.loads((Path(__file__).parents[2] / "bench" / "review.json").read_text())
CHAIN = "MutatingAdmissionPolicy,ValidatingAdmissionPolicy"


def write(folder: Path, *documents: JSONObject) -> None:
    """Put policies in place, as a rename does."""
    new = folder / "policies.new"
    new.write_text("\n---\n".join(map(json.dumps, documents)))
    new.rename(folder / "policies.yaml")


def message(text: str) -> JSONObject:
    return policy({"expression": "object.metadata.labels.team != 'none'", "message": text})


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("policies")


@pytest.fixture(name="stack", scope="module", params=[running, running_alone])
def _stack(request: pytest.FixtureRequest, folder: Path) -> Iterator[Stack]:
    write(folder, mutating(labelled("team", "'none'")), bound(), message("one"), binding())
    with request.param("--admission-control", CHAIN, "--config", str(folder / "policies.yaml")) as stack:
        yield stack


def answer(stack: Stack, path: str = "/admit") -> Any:
    return stack.post(path, REVIEW)["response"]


def test_services_apply_mutating_and_validating_policies(stack: Stack) -> None:
    refused = answer(stack)
    assert not refused["allowed"]
    assert refused["status"]["message"].endswith("denied request: one")
    changed = json.loads(base64.b64decode(answer(stack, "/mutate")["patch"]))
    assert [operation["value"] for operation in changed] in (["none"], [{"team": "none"}])


def test_each_policy_is_a_step_with_the_endpoint_of_its_service(stack: Stack) -> None:
    decision = stack.post("/explain?phase=admit", REVIEW)
    steps = [(step["name"], step["configuration"], step["outcome"]) for step in decision["steps"]]
    assert steps == [("p", "b", "mutated"), ("p", "b", "skipped"), ("p", "b", "denied")]
    assert all(step["endpoint"] for step in decision["steps"] if step["outcome"] != "skipped")


def test_changed_policy_files_take_effect_in_every_service(stack: Stack, folder: Path) -> None:
    write(folder, mutating(labelled("team", "'some'")), bound(), message("two"), binding())
    assert within(120, lambda: bool(answer(stack)["allowed"]))
    write(folder, mutating(labelled("team", "'none'")), bound(), message("two"), binding())
    assert within(120, lambda: answer(stack).get("status", {}).get("message", "").endswith("two"))


def test_policies_that_do_not_compile_leave_the_last_good_ones(stack: Stack, folder: Path) -> None:
    write(folder, message("three"), binding(), mutating(labelled("team", "'none'")), bound())
    assert within(120, lambda: answer(stack).get("status", {}).get("message", "").endswith("three"))
    write(folder, policy("object.metadata.("), binding())
    # Nothing tells when a change has been refused; one that is taken up later shows that the first was passed over.
    assert answer(stack)["status"]["message"].endswith("three")
    write(folder, mutating(labelled("team", "'none'")), bound(), message("four"), binding())
    assert within(120, lambda: answer(stack).get("status", {}).get("message", "").endswith("four"))
