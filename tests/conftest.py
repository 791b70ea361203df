"""What all tests have alike."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from support.shared_values import changed_values, shared_values
from support.xdist_groups import Groups

pytest_plugins = ["support.suite_times"]

# Processes that tests start use the bytecode of earlier ones, which halves what they take to start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# How long an example takes on a machine that is busy with other things says nothing about the code. hypothesis sees
# that by itself where CI runs; the rest of its profile for CI (no chance, no memory) is for CI alone.
settings.register_profile(
    "unhurried", parent=settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")

# What `make test-long` runs the properties with that everything stands on: many examples, the same ones every time.
settings.register_profile(
    "thorough", parent=settings.get_profile("unhurried"), max_examples=2_000, derandomize=True, database=None
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Groups | None:
    """Share tests out among processes by their groups, where ``--dist loadgroup`` asks for it."""
    return Groups(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.fixture(scope="module", autouse=True)
def shared_values_are_left_as_they_are() -> Iterator[None]:
    """Fail a module whose tests change a value that others share: they would fail, and not this one."""
    before = shared_values()
    yield
    assert not (changed := changed_values(before)), f"tests changed shared values, not copies: {changed}"
