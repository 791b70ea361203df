"""Peers are installed on demand, each by its own lock into a folder of its own under ``bench/.peers``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from measures import HERE, tell

PEERS = HERE / "peers"
INSTALLED = HERE / ".peers"


class NotInstallableError(Exception):
    """A peer cannot be installed here, and why."""


def install_python(name: str) -> Path:
    """Make the virtual environment of a peer in Python, unless it is there; gives its programs' folder.

    Raises:
        NotInstallableError: pip fails.
    """
    return _installed(name, ["requirements.txt"], _make_environment) / "bin"


def install_node(name: str) -> Path:
    """Install a peer in TypeScript, unless it is there; gives the folder it runs in, with its sources.

    Raises:
        NotInstallableError: there is no npm, or it fails.
    """
    if shutil.which("npm") is None:
        raise NotInstallableError("there is no npm")
    return _installed(name, ["package-lock.json"], _make_modules)


def install_go(name: str, package: str) -> Path:
    """Build a peer in Go, unless it is there; gives the program. The first time, that takes some minutes.

    Args:
        name: The peer's folder, whose lock says by which module ``package`` is.
        package: What to build: the folder's own package, or a command of a module that it requires.

    Raises:
        NotInstallableError: there is no Go, it is too old, or it fails.
    """
    if shutil.which("go") is None:
        raise NotInstallableError("there is no Go toolchain: no `go` on the path")
    sources = sorted(path.name for path in (PEERS / name).glob("*.go"))
    built = ["go", "build", "-mod=readonly", "-trimpath", "-o", "server", package]
    return _installed(name, ["go.mod", "go.sum", *sources], lambda _folder: [built]) / "server"


def _installed(name: str, lock: Sequence[str], commands: Callable[[Path], list[list[str]]]) -> Path:
    """A folder; what it was made from, its lock, is the last thing that is written into it."""
    source, folder = PEERS / name, INSTALLED / name
    wanted = b"".join((source / file).read_bytes() for file in lock)
    mark = folder / ".installed"
    if mark.is_file() and mark.read_bytes() == wanted:
        _copy(source, folder)
        return folder
    tell(f"installing {name}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _copy(source, folder)
    for command in commands(folder):
        run(command, folder)
    mark.write_bytes(wanted)
    return folder


def _copy(source: Path, folder: Path) -> None:
    for path in source.iterdir():
        if path.is_file():
            shutil.copy(path, folder)


def _make_environment(folder: Path) -> list[list[str]]:
    pip = [
        str(folder / "bin" / "python"),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--no-input",
        "--quiet",
    ]
    return [
        [sys.executable, "-m", "venv", str(folder)],
        [*pip, "install", "--require-hashes", "--requirement", "requirements.txt"],
    ]


def _make_modules(_folder: Path) -> list[list[str]]:
    return [["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]]


_AS_LOCKED = {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
"""Go as it is installed, instead of another that it downloads; and what it builds needs no C compiler."""


def run(command: Sequence[str], folder: Path) -> None:
    """Run a step of an installation.

    Raises:
        NotInstallableError: it fails; with the last line that it says.
    """
    done = subprocess.run(
        command, cwd=folder, env=os.environ | _AS_LOCKED, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise NotInstallableError(f"{' '.join(command[-3:])}: {said[-1] if said else 'failed'}")
