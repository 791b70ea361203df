"""The image holds what it runs, and no more: the packages of the lock and Pratique, beside what its base brings.

Skipped, and said so, where no Docker engine runs or the image is not built: ``make image``.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.docker_engine import IMAGE, why_not

ROOT = Path(__file__).parents[2]
LIST = """
import importlib.metadata, json, pathlib
root = pathlib.Path("/opt/pratique")
print(json.dumps({
    "packages": sorted({d.metadata["Name"] for d in importlib.metadata.distributions()}),
    "files": sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()),
    "writable": sorted(str(p) for p in root.rglob("*") if not p.is_symlink() and p.stat().st_mode & 0o002),
}))
"""
WHY_NOT = why_not(IMAGE)
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "there is all it needs")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(name="held", scope="module")
def _held() -> Any:
    command = [
        "docker",
        "run",
        "--rm",
        "--read-only",
        "--network",
        "none",
        "--entrypoint",
        "python",
        IMAGE,
        "-c",
        LIST,
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_only_locked_packages_and_pratique_are_installed(held: Any) -> None:
    lock = (ROOT / "scripts" / "requirements" / "run.txt").read_text()
    locked = {normal(name) for name in re.findall(r"^([A-Za-z0-9._-]+)==", lock, re.MULTILINE)}
    installed = {normal(name) for name in held["packages"]}
    assert "pratique" in installed
    assert installed - {"pratique"} <= locked
    assert {"grpcio", "msgspec", "uvicorn"} <= installed


def test_nothing_that_builds_tests_or_documents_is_in_it(held: Any) -> None:
    others = {
        "pip",
        "setuptools",
        "hatchling",
        "grpcio-tools",
        "pytest",
        "hypothesis",
        "mkdocs",
        "ruff",
        "mypy",
    }
    assert not others & {normal(name) for name in held["packages"]}


def test_pratique_s_own_files_are_those_of_its_wheel(held: Any) -> None:
    own = [name for name in held["files"] if "/site-packages/pratique" in name]
    assert len(own) > 300
    assert not [name for name in own if re.search(r"(^|/)(tests?|conftest\.py|docs)(/|$)", name)]
    assert {"LICENSE", "NOTICE"} <= set(held["files"])


def test_nothing_in_it_can_be_written_by_whom_it_runs_as(held: Any) -> None:
    assert not held["writable"]
