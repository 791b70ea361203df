"""A long run goes on where it ended."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from differential.comparison import Difference
from differential.judging import Judge
from differential.pairs import PODS, USUAL, Request, Setup, User
from differential.run_files import RunFile
from differential.runs import Run
from differential.tallies import Found, Tally

FOUND = Found("f", "seed/f/1", Request(User.AUTHOR, "POST", PODS, "n", "p", {}), Difference("code", 1, 2))


@dataclasses.dataclass(frozen=True)
class Counted:
    """A family whose pairs are all the same, but for one of each world."""

    drawn: list[str]
    name: str = "f"
    requests: int = 4
    setup: Setup = USUAL

    def compare(self, _judge: Judge, drawn_from: str, pairs: int, _told: Callable[[str], None]) -> Tally:
        self.drawn.append(drawn_from)
        return Tally(pairs, pairs - 1, found=[FOUND])


class NoJudge(Judge):
    """One that nobody asks."""

    def __init__(self) -> None:
        """Run nothing."""


def test_a_run_goes_on_where_the_one_before_it_ended(tmp_path: Path) -> None:
    file, family = tmp_path / "run.jsonl", Counted([])
    first = Run("seed", print, RunFile(file)).compare(NoJudge(), family, 6)
    assert (first.pairs, first.same, family.drawn) == (6, 4, ["seed/f/0", "seed/f/1"])
    again = Run("seed", print, RunFile(file)).compare(NoJudge(), family, 10)
    assert family.drawn == ["seed/f/0", "seed/f/1", "seed/f/2"]
    assert (again.pairs, again.different, again.found[0]) == (10, 3, FOUND)


def test_a_run_whose_time_is_up_begins_nothing(tmp_path: Path) -> None:
    family = Counted([])
    assert (
        Run("seed", print, RunFile(tmp_path / "run.jsonl"), until=0).compare(NoJudge(), family, 6).pairs == 0
    )
    assert family.drawn == []


def test_another_seed_begins_anew(tmp_path: Path) -> None:
    file, family = tmp_path / "run.jsonl", Counted([])
    for seed in ("one", "two"):
        assert Run(seed, print, RunFile(file)).compare(NoJudge(), family, 4).pairs == 4
    assert len(family.drawn) == 2
