"""Chaos: everything is disrupted under load, and a checker compares the history with the invariants."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.schedules import KINDS
from chaos.storms import Storm, seconds_of, seed_of, survive

SEED = 1
SHORT_SECONDS, LONG_SECONDS = 20, 300
LONG_SEEDS = range(10)


def test_no_request_is_decided_wrongly_whatever_breaks(tmp_path: Path) -> None:
    evidence = survive(Storm(seed_of(SEED), seconds_of(SHORT_SECONDS)), tmp_path)
    assert {strike.nemesis for strike in evidence.strikes} == {kind.nemesis for kind in KINDS}


@pytest.mark.long
@pytest.mark.parametrize("seed", LONG_SEEDS)
def test_no_request_is_decided_wrongly_for_minutes(seed: int, tmp_path: Path) -> None:
    storm = Storm(seed_of(seed), seconds_of(LONG_SECONDS), per_second=50, available=0.999)
    survive(storm, tmp_path)
