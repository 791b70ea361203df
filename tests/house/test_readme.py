from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pratique.admission.controllers import Controller, NoSettings
from support.forked_commands import PROGRAM, ForkedCommand

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
BINARIES = PROGRAM.parent

# sh: to be run as it stands; console: to be looked at
STARTS, *COMMANDS = re.findall(r"^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
PYTHON = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)

with_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="the README asks with curl")


@pytest.fixture(scope="module")
def stack() -> Iterator[str]:
    """What `make up` starts, on a free port; gives its URL."""
    command = [str(PROGRAM), "up", "--port", "0"]
    with ForkedCommand(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        ready = next(line for line in running.stdout if line.startswith("pratique: ready on "))
        yield ready.split()[-1]
        running.terminate()
        running.stdout.read()
    assert running.returncode == 0


def run(command: str, url: str) -> str:
    there = command.replace("http://127.0.0.1:8080", url).replace(".venv/bin/", f"{BINARIES}/")
    return subprocess.check_output(["sh", "-euc", there], cwd=ROOT, text=True)


def request() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "examples" / "review.json").read_text())["request"]
    return found


def test_it_can_be_read_in_one_go() -> None:
    assert len(README.splitlines()) < 200


def test_what_runs_comes_first() -> None:
    assert README[: README.index("\n```")].count("\n") < 40
    assert STARTS == "make up\n"


@with_curl
@pytest.mark.parametrize("command", COMMANDS, ids=range(len(COMMANDS)))
def test_its_commands_run(command: str, stack: str) -> None:
    assert run(command, stack).strip()


@with_curl
def test_its_review_is_answered_with_a_patch(stack: str) -> None:
    (command,) = (command for command in COMMANDS if "/admit" in command)
    response = json.loads(run(command, stack))["response"]
    operations = json.loads(base64.b64decode(response["patch"]))
    assert response["allowed"]
    assert response["uid"] == request()["uid"]
    assert "/spec/tolerations" in [operation["path"] for operation in operations]


@with_curl
def test_its_review_is_explained(stack: str) -> None:
    (command,) = (command for command in COMMANDS if "/explain" in command)
    steps = json.loads(run(command, stack))["steps"]
    assert "DefaultTolerationSeconds" in [step["name"] for step in steps if step["outcome"] == "mutated"]


def test_its_policy_is_a_controller() -> None:
    (source,) = PYTHON
    names: dict[str, object] = {}
    exec(compile(source, "README.md", "exec"), names)
    policy = names["no_latest"]
    assert isinstance(policy, Controller)
    assert policy.build(NoSettings()).validate is not None


def test_it_shows_the_help_as_it_is() -> None:
    said = subprocess.check_output(
        ["make", "help"], cwd=ROOT, text=True, env={"PATH": "/usr/local/bin:/usr/bin:/bin"}
    )
    assert f"$ make help\n{said}```" in README
