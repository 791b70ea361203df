"""Chaos: everything is disrupted under load, and a checker compares the history with the invariants."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.schedules import KINDS
from chaos.storms import Storm, seconds_of, seed_of, survive

SEED = 1
LONG_SEEDS = range(10)
LONG_SECONDS = 300


# The links between processes, which break and delay, are on grpcio's port alone; everything else breaks on both.
@pytest.mark.parametrize("service_flags", [(), ("--stream-port", "0")], ids=["grpcio", "event loop"])
def test_no_request_is_decided_wrongly_whatever_breaks(
    service_flags: tuple[str, ...], tmp_path: Path
) -> None:
    storm = Storm(seed_of(SEED), seconds_of(20), service_flags=service_flags)
    evidence = survive(storm, tmp_path)
    assert {strike.nemesis for strike in evidence.strikes} == {kind.nemesis for kind in KINDS}


@pytest.mark.long
@pytest.mark.parametrize("seed", LONG_SEEDS)
def test_no_request_is_decided_wrongly_for_minutes(seed: int, tmp_path: Path) -> None:
    storm = Storm(seed_of(seed), seconds_of(LONG_SECONDS), per_second=50, available=0.999)
    survive(storm, tmp_path)
