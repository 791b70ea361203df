"""What becomes of a run of the tests when a process of it dies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SCHEDULER = """
from support.xdist_groups import Groups

def pytest_xdist_make_scheduler(config, log):
    return Groups(config, log)
"""
LAST = """
import os, time

def test_dies():
    time.sleep({seconds})
    os._exit(3)

def test_after_it():
    pass
"""
FIRST = "def test_a():\n    pass\n\ndef test_b():\n    pass\n"


@pytest.mark.parametrize("seconds", [0, 1])
def test_a_process_that_dies_of_its_last_test_fails_that_test_alone(tmp_path: Path, seconds: int) -> None:
    """Whether or not the other process has been told to end by then."""
    for name, text in {
        "conftest.py": SCHEDULER,
        "pytest.ini": "[pytest]\n",
        "test_first.py": FIRST,
        "test_last.py": LAST.format(seconds=seconds),
    }.items():
        (tmp_path / name).write_text(text)
    options = "-p xdist -p no:cacheprovider -n 2 --dist loadgroup"
    command = [sys.executable, "-m", "pytest", *options.split()]
    run = subprocess.run(
        command,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "FAILED test_last.py::test_dies" in run.stdout, run.stdout
    assert "1 failed, 3 passed" in run.stdout
    assert run.returncode == 1
