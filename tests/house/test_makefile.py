from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest


def make(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # a make that runs the tests must not tell this one how to run
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    return subprocess.run(
        ["make", *arguments], cwd=root, env=environment, check=False, capture_output=True, text=True
    )


def targets(root: Path) -> list[str]:
    declared = re.search(r"^\.PHONY: (.*)$", (root / "Makefile").read_text(), re.MULTILINE)
    assert declared
    return declared[1].split()


def test_help_tells_of_every_target(root: Path) -> None:
    told = {line.split()[1] for line in make(root, "help").stdout.splitlines()}
    assert told == set(targets(root))


def test_help_is_what_make_alone_does(root: Path) -> None:
    assert make(root).stdout == make(root, "help").stdout


@pytest.mark.parametrize("target", ["up", "test", "lint"])
def test_the_readme_tells_of(target: str, root: Path) -> None:
    assert f"make {target}" in (root / "README.md").read_text()


def test_flags_reach_the_stack(root: Path) -> None:
    planned = make(root, "--dry-run", "up", "PORT=8443", "ARGS=--validators 3").stdout
    assert planned.splitlines()[-1] == ".venv/bin/pratique up --port 8443 --validators 3"


def test_an_interpreter_that_will_not_do_is_told_of_in_one_line(root: Path) -> None:
    done = make(root, ".venv-of-a-test/bin/python", "VENV=.venv-of-a-test", "PYTHON=/bin/false")
    assert done.returncode != 0
    assert "no Python 3.11 or newer with its venv module in /bin/false" in done.stderr
    assert not (root / ".venv-of-a-test").exists()
