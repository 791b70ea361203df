"""What fuzzing starts from, what it has found, and what once was a defect: every target takes all of it."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

import pytest

from fuzzing.limits import limited
from fuzzing.targets import DATA, TARGETS, Target

EACH = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
CRASHES = [
    pytest.param(target, file.name, id=f"{target.name}/{file.name}")
    for target in TARGETS
    for file in (sorted(target.crashes.iterdir()) if target.crashes.is_dir() else ())
]


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """A controller that complains of every input says nothing that anybody wants to read."""
    caplog.set_level(logging.CRITICAL)


def tried(target: Target, inputs: list[bytes], folder: Path) -> list[bool]:
    with target.open(folder) as attempt:
        attempt(b"")  # what is loaded once is not counted as anybody's time
        understood = []
        for data in inputs:
            with limited():
                understood.append(attempt(data))
    return understood


@EACH
def test_some_of_what_it_starts_from_is_understood(target: Target, tmp_path: Path) -> None:
    assert any(tried(target, list(target.seeds()), tmp_path))


@EACH
def test_it_takes_what_fuzzing_has_found(target: Target, tmp_path: Path) -> None:
    files = sorted(target.corpus.iterdir())
    understood = tried(target, [file.read_bytes() for file in files], tmp_path)
    assert len(understood) >= 10


@pytest.mark.parametrize(("target", "name"), CRASHES)
def test_what_once_was_a_defect_is_none(target: Target, name: str, tmp_path: Path) -> None:
    tried(target, [(target.crashes / name).read_bytes()], tmp_path)


def test_all_that_is_kept_belongs_to_a_target() -> None:
    names = {target.name for target in TARGETS}
    for kind in ("corpus", "crashes"):
        with contextlib.suppress(FileNotFoundError):
            assert {folder.name for folder in (DATA / kind).iterdir()} <= names
