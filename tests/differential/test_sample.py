"""A sample of the pairs that ``make differential`` compares with a real kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from differential.judging import Judge, judging
from differential.run import FAMILIES, families
from differential.runs import Run

PAIRS = 300
SEED = "sample"
"""One for all runs, so that what breaks the sample is the change under test; ``make differential`` draws new ones."""


@pytest.fixture(name="judge", scope="module")
def _judge() -> Iterator[Judge]:
    with judging() as judge:
        yield judge


@pytest.mark.parametrize("name", FAMILIES)
def test_pratique_decides_as_kube_apiserver_does(judge: Judge, name: str) -> None:
    (family,) = (family for family in families(judge) if family.name == name)
    told: list[str] = []
    tallies = Run(judge, SEED, told.append).compare([family], PAIRS // (len(FAMILIES) + 1))
    assert not tallies[name].found, "\n".join(told)


def test_pratique_takes_and_refuses_configurations_as_kube_apiserver_does(judge: Judge) -> None:
    told: list[str] = []
    tally = Run(judge, SEED, told.append).compare_configurations(PAIRS // (len(FAMILIES) + 1))
    assert not tally.found, "\n".join(told)
    assert min(tally.refused, tally.same - tally.refused) > 0
