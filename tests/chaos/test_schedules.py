"""Requests and strikes depend only on the seed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from chaos.nemeses import NEMESES
from chaos.schedules import KINDS, Strike, schedule
from chaos.workloads import REVIEWS, Workload, review_of

SEEDS = st.integers(0, 2**63)


@given(SEEDS, st.integers(0, 10_000))
def test_a_request_depends_only_on_seed_and_number(seed: int, number: int) -> None:
    first = Workload(seed).request(number)
    review_of.cache_clear()
    Workload(seed + 1).request(number)
    assert Workload(seed).request(number) == first
    assert first.uid == first.body["request"]["uid"]


@given(SEEDS, st.floats(5, 600), st.floats(1, 10))
def test_a_schedule_depends_only_on_the_seed(seed: int, seconds: float, every: float) -> None:
    assert schedule(seed, seconds, every) == schedule(seed, seconds, every)


@given(SEEDS, st.floats(5, 600), st.floats(1, 10))
def test_every_nemesis_runs_in_time_and_within_its_limits(seed: int, seconds: float, every: float) -> None:
    strikes = schedule(seed, seconds, every)
    assert {strike.nemesis for strike in strikes} == {kind.nemesis for kind in KINDS} == set(NEMESES)
    assert all(0 <= strike.at < seconds for strike in strikes)
    assert all(_within(strike) for strike in strikes)


def _within(strike: Strike) -> bool:
    [kind] = [kind for kind in KINDS if kind.nemesis == strike.nemesis]
    return (
        strike.target in kind.targets
        and kind.seconds[0] <= strike.seconds <= kind.seconds[1]
        and kind.amount[0] <= strike.amount <= kind.amount[1]
    )


def test_another_process_derives_the_same_from_a_seed() -> None:
    asking = (
        "from chaos.schedules import schedule; from chaos.workloads import Workload;"
        "print(schedule(7, 60, 5), [Workload(7).request(n) for n in range(50)])"
    )
    command = [sys.executable, "-c", asking]
    tests = str(Path(__file__).parent.parent)
    said = subprocess.run(
        command, check=True, capture_output=True, text=True, env={"PYTHONPATH": tests, "PYTHONHASHSEED": "3"}
    )
    here = [Workload(7).request(number) for number in range(50)]
    assert said.stdout == f"{schedule(7, 60, 5)} {here}\n"


def test_seeds_differ_and_cover_all_kinds_of_reviews() -> None:
    assert schedule(1, 60, 5) != schedule(2, 60, 5)
    requests = [review_of(seed, which) for seed in range(3) for which in range(REVIEWS)]
    assert {request["request"]["operation"] for request in requests} == {"CREATE", "UPDATE", "DELETE"}
    assert {request["apiVersion"].rpartition("/")[2] for request in requests} == {"v1", "v1beta1"}
    assert {Workload(1).request(number).path for number in range(99)} == {"/validate", "/mutate", "/admit"}
