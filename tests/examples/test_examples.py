"""Every example runs as its reader would run it, and decides as its expected.json says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDERS = sorted(path for path in EXAMPLES.iterdir() if path.is_dir())
MEASURED = ("durationMs", "endpoint")
"""Fields of a step that differ from run to run."""


def comparable(decision: dict[str, Any]) -> dict[str, Any]:
    steps = [{key: value for key, value in step.items() if key not in MEASURED} for step in decision["steps"]]
    return decision | {"steps": steps, "expanded": [comparable(pod) for pod in decision["expanded"]]}


def run(folder: Path, output: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["sh", str(folder / "run.sh"), output],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_an_example_decides_as_expected(folder: Path) -> None:
    done = run(folder, "json")
    assert done.returncode == 1, done.stderr
    expected = json.loads((folder / "expected.json").read_text())
    assert [comparable(decision) for decision in json.loads(done.stdout)] == expected


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_an_example_says_what_it_shows(folder: Path) -> None:
    assert (folder / "README.md").read_text().startswith("# ")
    assert "run.sh" in (folder / "README.md").read_text()
