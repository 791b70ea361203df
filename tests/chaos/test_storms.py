"""Chaos: everything is disrupted under load, and a checker compares the history with the invariants."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.schedules import KINDS, MUTATORS, SERVICES, VALIDATORS
from chaos.storms import Storm, seconds_of, seed_of, survive

SEED = 1
SHORT_SECONDS, SECONDS, LONG_SECONDS = 20, 60, 300
LONG_SEEDS = range(10)


def test_no_request_is_decided_wrongly_whatever_breaks(tmp_path: Path) -> None:
    """The links between processes, which break and delay, are on grpcio's port alone; all else breaks on both."""
    listening = (MUTATORS[1], VALIDATORS[1])
    evidence = survive(Storm(seed_of(SEED), seconds_of(SHORT_SECONDS), listening=listening), tmp_path)
    assert {strike.nemesis for strike in evidence.strikes} == {kind.nemesis for kind in KINDS}


@pytest.mark.long
@pytest.mark.parametrize("listening", [(), SERVICES], ids=["grpcio", "event loop"])
def test_no_request_is_decided_wrongly_by_either_kind_of_streams(
    listening: tuple[str, ...], tmp_path: Path
) -> None:
    survive(Storm(seed_of(SEED), seconds_of(SECONDS), listening=listening), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("seed", LONG_SEEDS)
def test_no_request_is_decided_wrongly_for_minutes(seed: int, tmp_path: Path) -> None:
    storm = Storm(seed_of(seed), seconds_of(LONG_SECONDS), per_second=50, available=0.999)
    survive(storm, tmp_path)
