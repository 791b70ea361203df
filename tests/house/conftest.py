"""What the tests of the house look at: the repository itself."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder that holds the whole project."""
    return Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def git(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Run git on the project's files, in a repository of its own: theirs may belong to somebody else."""
    command = ["git", f"--git-dir={tmp_path_factory.mktemp('git')}", f"--work-tree={root}"]

    def run(*arguments: str) -> str:
        return subprocess.check_output([*command, *arguments], cwd=root, text=True)

    run("init", "--quiet")
    return run


@pytest.fixture(scope="session")
def texts(root: Path, git: Callable[..., str]) -> dict[str, str]:
    """Every text file that git would hold, by its path."""
    names = git("ls-files", "-z", "--others", "--exclude-standard").split("\0")
    contents = {name: text_of(root / name) for name in names if (root / name).is_file()}
    return {name: text for name, text in contents.items() if text is not None}


def text_of(path: Path) -> str | None:
    """What is in a file; None where it is no text, as a contract in binary form is none."""
    content = path.read_bytes()
    try:
        return None if b"\0" in content else content.decode()
    except UnicodeDecodeError:
        return None
