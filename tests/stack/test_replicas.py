"""Validators scale alone, and one that dies takes no review with it."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.local_stacks import Stack, kill, running
from support.waiting import within

REVIEW = json.loads((Path(__file__).parents[2] / "bench" / "review.json").read_text())
CALLERS, REVIEWS_EACH = 8, 60


@pytest.fixture(name="started", scope="module")
def _started() -> Iterator[Stack]:
    with running("--validators", "2", "--admission-control", "LimitPodHardAntiAffinityTopology") as stack:
        yield stack


@pytest.fixture(name="stack")
def _stack(started: Stack) -> Stack:
    """The stack, with two validators that work, whatever the test before did to them."""
    assert within(120, lambda: recovered(started))
    return started


def recovered(stack: Stack, *dead: int) -> bool:
    """Whether there are two validators other than those, and reviews are answered."""
    return len({*stack.pids("validator")} - {*dead}) == 2 and stack.ask("/validate", REVIEW)[0] == 200


def call_many(stack: Stack, answers: list[Any]) -> None:
    connection = stack.connect()
    for number in range(REVIEWS_EACH):
        review = REVIEW | {"request": REVIEW["request"] | {"uid": f"{threading.get_ident()}-{number}"}}
        answers.append((review["request"]["uid"], stack.post("/validate", review, connection)["response"]))
    connection.close()


def test_killing_one_of_two_validators_under_load_loses_no_review(stack: Stack) -> None:
    answers: list[Any] = []
    callers = [threading.Thread(target=call_many, args=(stack, answers)) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    assert within(120, lambda: len(answers) >= CALLERS * REVIEWS_EACH // 4)
    victim = stack.pids("validator")[0]
    kill(victim)
    for caller in callers:
        caller.join()
    assert len(answers) == CALLERS * REVIEWS_EACH
    assert [response for uid, response in answers if not response["allowed"] or response["uid"] != uid] == []


def test_a_dead_validator_is_restarted_and_found_again(stack: Stack) -> None:
    before = stack.pids("validator")
    for pid in before:
        kill(pid)
    assert within(120, lambda: recovered(stack, *before))


def test_no_review_is_allowed_while_all_validators_are_dead(stack: Stack) -> None:
    stack.process.send_signal(signal.SIGSTOP)  # or it would start others, perhaps before the answer
    try:
        for pid in stack.pids("validator"):
            kill(pid)
        code, body = stack.ask("/validate", REVIEW)
    finally:
        stack.process.send_signal(signal.SIGCONT)
    assert (code, body["kind"], body["reason"]) == (503, "Status", "ServiceUnavailable")
