"""Faults, done by the engine to containers: nothing is let through that is against the rule, and all heals.

Skipped, and said so, where no Docker engine runs or the image is not built: ``make image``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.container_stacks import (
    ContainedStack,
    asking,
    contained_stack,
    wait_for_more,
    wait_until_healthy,
)
from support.docker_engine import IMAGE, why_not

WHY_NOT = why_not(IMAGE)
pytestmark = [
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "there is all it needs"),
]

SOME = 200
"""Answers that have to come before, during and after a fault."""


@pytest.fixture(name="stack", scope="module")
def _stack() -> Iterator[ContainedStack]:
    with contained_stack(validators=3) as stack:
        yield stack


def test_a_killed_validator_costs_no_answer(stack: ContainedStack) -> None:
    with asking(stack.port) as asked:
        wait_for_more(asked, SOME)
        stack.validators[0].kill()
        wait_for_more(asked, SOME)
        stack.validators[0].start()
        wait_for_more(asked, SOME)
    assert (asked.failed_open, asked.lost, asked.failed_closed) == (0, 0, 0)


def test_a_validator_that_stands_still_lets_nothing_through(stack: ContainedStack) -> None:
    with asking(stack.port, timeout="1s") as asked:
        wait_for_more(asked, SOME)
        stack.validators[1].pause()
        wait_for_more(asked, SOME)
        stack.validators[1].unpause()
        wait_for_more(asked, SOME)
    assert (asked.failed_open, asked.lost) == (0, 0)


def test_a_validator_whose_network_is_cut_lets_nothing_through(stack: ContainedStack) -> None:
    with asking(stack.port, timeout="1s") as asked:
        wait_for_more(asked, SOME)
        stack.network.disconnect(stack.validators[2])
        wait_for_more(asked, SOME)
        stack.network.connect(stack.validators[2], aliases=["validator"])
        wait_for_more(asked, SOME)
    assert (asked.failed_open, asked.lost) == (0, 0)


def test_validators_that_are_restarted_one_after_another_cost_no_answer(stack: ContainedStack) -> None:
    with asking(stack.port) as asked:
        for validator in stack.validators:
            wait_for_more(asked, SOME)
            validator.restart(timeout=30)
            wait_until_healthy(validator)
        wait_for_more(asked, SOME)
    assert (asked.failed_open, asked.lost, asked.failed_closed) == (0, 0, 0)


def test_with_no_validator_left_nothing_is_let_through(stack: ContainedStack) -> None:
    with asking(stack.port) as asked:
        wait_for_more(asked, SOME)
        for validator in stack.validators:
            validator.kill()
        closed = asked.failed_closed
        while asked.failed_closed < closed + SOME:
            asked.ended.wait(0.05)
        for validator in stack.validators:
            validator.start()
        wait_for_more(asked, SOME)
    assert (asked.failed_open, asked.lost) == (0, 0)
