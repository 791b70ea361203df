"""What all tests have alike."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from xdist.remote import Producer

from support.shared_values import changed_values, shared_values
from support.xdist_groups import Groups

pytest_plugins = ["support.suite_times"]

# Processes that tests start use the bytecode of earlier ones, which halves what they take to start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# `make test` draws a few examples of each property, others in every run; `make test-long` draws many, the same ones in
# every run. How long an example takes on a machine that is busy with other things says nothing about the code.
LONG = "PRATIQUE_LONG" in os.environ
settings.register_profile(
    "few",
    parent=settings(),
    max_examples=25,
    derandomize=False,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "thorough", parent=settings.get_profile("few"), max_examples=2_000, derandomize=True, database=None
)
settings.load_profile("thorough" if LONG else "few")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let the collector of garbage not look at the tests again and again while they come to be."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let `make test-long` run all properties, with their many examples, besides what is marked ``long``."""
    for item in items if LONG else ():
        if isinstance(item, pytest.Function) and is_hypothesis_test(item.function):
            item.add_marker("long")


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
