"""A soak: nothing is done to the system, and nothing in it grows."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from chaos.checkers import violations
from chaos.evidence import Evidence
from chaos.histories import read_history
from chaos.oracles import open_oracle
from chaos.soaks import soak
from chaos.storms import seed_of

SECONDS = float(os.environ.get("PRATIQUE_SOAK_SECONDS", "1200"))
SEED = 3
"""None of its Pods has 700 kB: the allocator's memory for messages of that size varies by 4 MiB."""
KIB_PER_HOUR = 1024
NOISE_KIB = 512
"""The difference of medians without growth: a gRPC arena, a slab of the allocator."""


@pytest.mark.long
def test_nothing_grows_and_all_decisions_are_right_over_a_long_time(tmp_path: Path) -> None:
    history, soaked = asyncio.run(soak(SECONDS, tmp_path, seed_of(SEED)))
    for item in soaked:
        print(item.line())  # noqa: T201 - the figures
    with open_oracle(tmp_path / "oracle") as oracle:
        evidence = Evidence(read_history(history), oracle)
        assert violations(evidence) == []
        assert all(evidence.is_right(case) or evidence.was_busy(case) for case in evidence.cases)
    for item in soaked:
        assert item.after.descriptors <= item.before.descriptors, item.line()
        assert item.after.tasks <= item.before.tasks, item.line()
        assert item.after.children == item.before.children, item.line()
        assert item.kib_per_hour <= KIB_PER_HOUR + NOISE_KIB * 3600 / SECONDS, item.line()
