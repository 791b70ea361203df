"""A sample of the pairs that ``make differential`` compares with a real kube-apiserver."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from differential.judging import Judge, judging
from differential.pairs import Setup
from differential.run import FAMILIES
from differential.runs import Comparable, Run

PAIRS = 300
SEED = "sample"
"""One for all runs, so that what breaks the sample is the change under test; ``make differential`` draws new ones."""


@pytest.fixture(name="judge_of", scope="module")
def _judge_of() -> Iterator[Callable[[Setup], Judge]]:
    """The API servers of a setup; those of one run until another one is asked for."""
    with contextlib.ExitStack() as stack:
        running: dict[Setup, Judge] = {}

        def judge_of(setup: Setup) -> Judge:
            if setup not in running:
                stack.pop_all().close()
                running.clear()
                running[setup] = stack.enter_context(judging(setup))
            return running[setup]

        yield judge_of


OBJECTS = next(family for family in FAMILIES if family.name == "objects")
DECISIONS = tuple(family for family in FAMILIES if family is not OBJECTS)
SAME_OBJECTS = 0.97
"""The share of drawn objects that come out the same; ``docs/conformance.md`` has the whole run."""


@pytest.mark.parametrize("family", DECISIONS, ids=lambda family: family.name)
def test_pratique_decides_as_kube_apiserver_does(
    judge_of: Callable[[Setup], Judge], family: Comparable
) -> None:
    told: list[str] = []
    tally = Run(SEED, told.append).compare(judge_of(family.setup), family, PAIRS // len(DECISIONS))
    assert not tally.found, "\n".join(told)
    assert tally.same > 0


def test_most_drawn_objects_come_out_as_kube_apiserver_stores_them(
    judge_of: Callable[[Setup], Judge],
) -> None:
    told: list[str] = []
    tally = Run(SEED, told.append).compare(judge_of(OBJECTS.setup), OBJECTS, PAIRS)
    assert tally.same >= SAME_OBJECTS * PAIRS, "\n".join(told)
