"""A local stack divides the validating work of a review among its validators, and outlives one that freezes."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.front_doors.reviews import review_document
from support.local_stacks import Stack, running
from support.pods import container, pod
from support.validating_policies import binding, policy

POLICIES = 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty policies, the last of which denies images without a tag."""
    folder = tmp_path_factory.mktemp("policies")
    documents = []
    for number in range(POLICIES):
        name = f"p{number:02}"
        expression = (
            "object.spec.containers.all(c, c.image.contains(':'))" if number == POLICIES - 1 else "true"
        )
        documents += [policy(expression, name=name), binding(name, name=f"b{number:02}")]
    (folder / "policies.yaml").write_text("\n---\n".join(map(json.dumps, documents)))
    return folder


def start(folder: Path, validators: int, fan_out: str) -> contextlib.AbstractContextManager[Stack]:
    chain = ("--admission-control", "ValidatingAdmissionPolicy", "--config", str(folder))
    return running("--validators", str(validators), "--validator-fanout", fan_out, *chain)


@pytest.fixture(scope="module")
def stack(folder: Path) -> Iterator[Stack]:
    with start(folder, 3, "3") as started:
        yield started


@pytest.fixture(scope="module")
def undivided(folder: Path) -> Iterator[Stack]:
    """The same, but one validator does all the work of a review."""
    with start(folder, 2, "off") as started:
        yield started


def explained(stack: Stack, image: str) -> tuple[Any, list[Any]]:
    """The decision document, and the steps of policies."""
    document = stack.post("/explain?phase=validate", review_document(object=pod(container(image=image))))
    return document, [step for step in document["steps"] if step["controller"] == "ValidatingAdmissionPolicy"]


def test_explain_names_the_replica_of_each_policy(stack: Stack) -> None:
    document, steps = explained(stack, "web:1")
    assert document["allowed"]
    assert [step["name"] for step in steps] == [f"p{number:02}" for number in range(POLICIES)]
    assert len(collections.Counter(step["endpoint"] for step in steps)) == 3


def test_a_denial_is_the_same_as_from_one_validator(stack: Stack, undivided: Stack) -> None:
    divided, _ = explained(stack, "web")
    whole, steps = explained(undivided, "web")
    assert len({step["endpoint"] for step in steps}) == 1
    assert divided["status"] == whole["status"]
    assert not divided["allowed"]


def test_metrics_count_the_calls_of_each_replica(stack: Stack) -> None:
    explained(stack, "web:1")
    lines = stack.get("/metrics")[1].splitlines()
    counted = [line for line in lines if line.startswith("pratique_frontdoor_replica_calls_total")]
    validators = [line for line in counted if 'service="validator"' in line]
    assert len(validators) == 3
    assert all(float(line.rpartition(" ")[2]) > 0 for line in validators)


@contextlib.contextmanager
def frozen(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("kind", ["stack", "undivided"])
def test_reviews_with_little_time_are_decided_although_a_validator_is_frozen(
    request: pytest.FixtureRequest, kind: str
) -> None:
    """A ping would notice the frozen one after 7 s, but these have 4."""
    started: Stack = request.getfixturevalue(kind)
    explained(started, "web:1")
    with frozen(started.pids("validator")[1]):
        for image in ("web:1", "web") * 5:
            document = review_document(object=pod(container(image=image)))
            code, answer = started.ask("/validate?timeout=4s", document)
            assert (code, answer["response"]["allowed"]) == (200, image == "web:1")
