"""Fixtures of the command line's tests: the real console script, run as a process."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support import forked_commands
from support.forked_commands import PROGRAM, ForkedCommand


def clean_environment(**variables: str) -> dict[str, str]:
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("PRATIQUE_", "NO_COLOR", "GITHUB_"))
    }
    return kept | variables


@pytest.fixture
def pratique(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run ``pratique`` in an empty folder, with only the given flags in the environment."""

    def run(*arguments: object, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        return forked_commands.run(
            [PROGRAM, *arguments], input=stdin, cwd=tmp_path, env=clean_environment(**variables)
        )

    return run


@pytest.fixture
def on_terminal(tmp_path: Path) -> Callable[..., str]:
    """Run ``pratique`` with a terminal as standard output, and return what it shows."""

    def run(*arguments: object, **variables: str) -> str:
        ours, theirs = pty.openpty()
        environment = clean_environment(**{"TERM": "xterm", "COLUMNS": "100"} | variables)
        command = [str(PROGRAM), *map(str, arguments)]
        with ForkedCommand(
            command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, cwd=tmp_path, env=environment
        ):
            os.close(theirs)
            shown = b"".join(iter(lambda: read_terminal(ours), b""))
        os.close(ours)
        return shown.decode().replace("\r\n", "\n")

    return run


@pytest.fixture
def errors_on_terminal(tmp_path: Path) -> Callable[..., str]:
    """Run ``pratique`` with a terminal as standard error only, and return what it shows; the rest goes to ``out``."""

    def run(*arguments: object) -> str:
        ours, theirs = pty.openpty()
        command = [str(PROGRAM), *map(str, arguments)]
        environment = clean_environment(TERM="dumb")
        with (
            (tmp_path / "out").open("wb") as out,
            ForkedCommand(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=theirs, cwd=tmp_path, env=environment
            ),
        ):
            os.close(theirs)
            shown = b"".join(iter(lambda: read_terminal(ours), b""))
        os.close(ours)
        return shown.decode()

    return run


def read_terminal(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # how Linux says that the other side has closed
        return b""
