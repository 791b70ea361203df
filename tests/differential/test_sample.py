"""Samples of the pairs that ``make differential`` compares with a real kube-apiserver, drawn anew each time."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from differential.judging import Judges, judging
from differential.run import FAMILIES
from differential.runs import Comparable, Run

SEED = f"{time.time_ns():x}"
OBJECTS = next(family for family in FAMILIES if family.name == "objects")
DECISIONS = tuple(family for family in FAMILIES if family is not OBJECTS)
WITH_COMMON_FLAGS = tuple(family for family in DECISIONS if not family.setup.flags)
"""Families of the same API servers, but for the one that decides."""
SAME_OBJECTS = 0.97
"""The share of drawn objects that come out the same; ``docs/conformance.md`` has the whole run."""


@pytest.fixture(name="judges", scope="module")
def _judges() -> Iterator[Judges]:
    with judging() as judges:
        yield judges


def check(judges: Judges, family: Comparable, pairs: int, same: float = 0) -> None:
    """Compare pairs of a family: nothing differs, or so large a share comes out the same."""
    told: list[str] = [f"make differential ARGS='--family \"{family.name}\" --seed {SEED}'"]
    tally = Run(SEED, told.append).compare(judges.of(family.setup), family, pairs)
    assert tally.same >= same * pairs if same else not tally.found, "\n".join(told)
    assert tally.same > 0


@pytest.mark.parametrize("family", WITH_COMMON_FLAGS, ids=lambda family: family.name)
def test_pratique_decides_as_kube_apiserver_does(judges: Judges, family: Comparable) -> None:
    check(judges, family, 8)


@pytest.mark.long
@pytest.mark.parametrize("family", DECISIONS, ids=lambda family: family.name)
def test_pratique_decides_many_pairs_as_kube_apiserver_does(judges: Judges, family: Comparable) -> None:
    check(judges, family, 60)


def test_most_drawn_objects_come_out_as_kube_apiserver_stores_them(judges: Judges) -> None:
    check(judges, OBJECTS, 100, SAME_OBJECTS)


@pytest.mark.long
def test_most_of_many_drawn_objects_come_out_as_kube_apiserver_stores_them(judges: Judges) -> None:
    check(judges, OBJECTS, 1_000, SAME_OBJECTS)
