"""A test that changes a value which other tests share is found where it is, not by what fails behind it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
CHANGING = """
from support.validating_policies import EVERYTHING

def test_that_changes_the_operations_of_a_rule():
    EVERYTHING["operations"] = ["CREATE"]
"""
COPYING = """
from support.validating_policies import EVERYTHING

def test_that_changes_a_copy():
    assert EVERYTHING | {"operations": ["CREATE"]} != EVERYTHING
"""


def run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_one.py").write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
        check=False,
        cwd=folder,
        env={"PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_module_that_changes_a_shared_value_fails(tmp_path: Path) -> None:
    ran = run(tmp_path, CHANGING)
    assert ran.returncode == 1
    assert "tests changed shared values, not copies: ['support.validating_policies.EVERYTHING']" in ran.stdout


def test_a_module_that_changes_a_copy_passes(tmp_path: Path) -> None:
    ran = run(tmp_path, COPYING)
    assert ran.returncode == 0, ran.stdout
