"""The wheel of a fresh clone, installed by pip for each version of Python that is supported."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("3.11", "3.12", "3.13")
MAX_PACKAGES = 25
MAX_MEGABYTES = 90
TOOLS = {"pip", "setuptools"}
"""What a new environment holds before anything is installed."""

MEASURE = f"""
import json
from importlib.metadata import distributions
found = {{d.metadata["Name"].lower(): d for d in distributions()}}
ours = [d for name, d in found.items() if name not in {TOOLS}]
files = {{path.locate().resolve() for d in ours for path in d.files}}
sizes = {{str(path): path.stat().st_size for path in files if path.exists()}}
print(json.dumps([len(ours), sum(sizes.values())]))
"""
"""Prints the packages and their bytes, byte code included."""


def interpreter(version: str) -> str:
    """The interpreter of a version: on PATH, or one of pyenv's; empty where none is here."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    installed = [str(path) for path in sorted(pyenv.glob(f"{version}.*/bin/python"))]
    candidates = [*installed, shutil.which(f"python{version}") or ""]
    return next((path for path in candidates if path), "")


def run(*command: str | Path, cwd: Path) -> str:
    environment = {
        name: os.environ[name] for name in os.environ if not name.startswith(("PRATIQUE", "PYTHON"))
    }
    ran = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def install(python: Path, *requirements: str, cwd: Path) -> None:
    run(python, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", *requirements, cwd=cwd)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of a fresh clone, in which nothing is generated, as `pip install .` does."""
    folder = tmp_path_factory.mktemp("clone")
    run("git", "clone", "--quiet", str(ROOT), "clone", cwd=folder)
    built = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", "dist", "./clone")
    run(*built, cwd=folder)
    return next((folder / "dist").glob("*.whl"))


@pytest.fixture(scope="module", params=VERSIONS)
def python(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that holds the wheel, and no extra."""
    version = str(request.param)
    if not interpreter(version):
        pytest.skip(f"no Python {version} here")
    folder = tmp_path_factory.mktemp("environment")
    run(interpreter(version), "-m", "venv", "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    install(python, str(wheel), cwd=folder)
    return python


def test_offline_use_takes_few_packages_and_little_room(python: Path, tmp_path: Path) -> None:
    packages, size = json.loads(run(python, "-c", MEASURE, cwd=tmp_path))
    assert packages <= MAX_PACKAGES
    assert size / 10**6 <= MAX_MEGABYTES


@pytest.mark.parametrize(
    "command",
    [
        "review review.json",
        "check 04-cel-policies/policies.yaml",
        "test 05-policy-tests",
        "plugins",
        "version",
        "completion bash",
    ],
)
def test_offline_commands_run(command: str, python: Path) -> None:
    assert run(python.parent / "pratique", *command.split(), cwd=ROOT / "examples")


@pytest.fixture
def stack(python: Path, wheel: Path, tmp_path: Path) -> Iterator[str]:
    """The first line of `pratique up`, once the services are installed."""
    install(python, f"{wheel}[services]", cwd=tmp_path)
    command = [str(python.parent / "pratique"), "up", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        yield running.stdout.readline()
        running.terminate()
        running.stdout.read()
    assert running.returncode == 0


def test_the_stack_starts_with_the_services(stack: str) -> None:
    assert stack.startswith("pratique: ready on http://127.0.0.1:")
