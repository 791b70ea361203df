"""``pratique new policy``: from a name to a denial in a running stack."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from pratique.apimachinery.errors import InputError
from pratique_cli.policy_packages import PolicyPackage

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PATIENCE = 300.0
FILES = [
    "README.md",
    "admission.yaml",
    "pyproject.toml",
    "require_team.py",
    "review.json",
    "tests/test_require_team.py",
]
CONSOLE = re.compile(
    r"^```console\n(\$ pip install 'pratique\[services\]'\n.*?)^```", re.MULTILINE | re.DOTALL
)


def five_commands() -> list[str]:
    """The commands of the page."""
    page = (ROOT / "docs" / "writing-policies.md").read_text("utf-8")
    (block,) = CONSOLE.findall(page)
    return [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]


def environment(folder: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PRATIQUE_")}
    return kept | {"PATH": f"{BIN}:{kept['PATH']}", "PYTHONPATH": str(folder / "installed")}


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


@contextmanager
def running(command: str, folder: Path) -> Iterator[str]:
    """Run a stack until the context ends; gives its URL."""
    process = subprocess.Popen(
        ["sh", "-c", f"exec {command} --until-stdin-closes --port 0"],
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("pratique: ready on "), line
        yield line.split()[-1]
    finally:
        process.communicate(timeout=PATIENCE)


def test_the_tests_of_a_new_policy_pass_with_plain_pytest(pratique: Program, tmp_path: Path) -> None:
    made = pratique("new", "policy", "RequireTeam")
    assert (made.returncode, made.stderr) == (0, "")
    package = tmp_path / "require-team"
    assert sorted(str(path.relative_to(package)) for path in package.rglob("*") if path.is_file()) == FILES
    done = run("python -m pytest -q -W error -p no:cacheprovider", package)
    assert "3 passed" in done.stdout, done.stdout + done.stderr
    policy = package / "require_team.py"
    policy.write_text(policy.read_text().replace("return deny", "return allow() or deny"))
    assert "2 failed" in run("python -m pytest -q -p no:cacheprovider", package).stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_five_commands_lead_to_a_denial_in_a_running_stack(tmp_path: Path) -> None:
    install_pratique, new, install, up, curl = five_commands()
    assert install_pratique == "pip install 'pratique[services]'"  # done, for whoever runs this test
    assert run(new, tmp_path).returncode == 0
    # into a folder of this test, and without asking an index
    target = f"python -m pip install -q --no-deps --no-build-isolation --target {tmp_path / 'installed'}"
    installed = run(install.replace("pip install", target), tmp_path)
    assert installed.returncode == 0, installed.stderr
    with running(up, tmp_path) as url:
        answer = run(curl.replace("http://127.0.0.1:8080", url), tmp_path)
    response = json.loads(answer.stdout)["response"]
    assert not response["allowed"]
    assert response["status"]["message"] == 'pods "web" is forbidden: label team is missing'


def test_the_files_of_a_new_policy_can_be_reviewed(tmp_path: Path) -> None:
    package = tmp_path / "require-team"
    PolicyPackage.named("RequireTeam").write(package)
    settings = package / "admission.yaml"
    settings.write_text(settings.read_text().replace("label: team", "label: owner"))
    target = f"python -m pip install -q --no-deps --no-build-isolation --target {tmp_path / 'installed'}"
    assert run(f"{target} ./require-team", tmp_path).returncode == 0
    flags = "--enable-admission-plugins RequireTeam --admission-control-config-file admission.yaml"
    denied = run(f"cd require-team && pratique review {flags} review.json", tmp_path)
    assert denied.returncode == 1, denied.stderr
    assert "label owner is missing" in denied.stdout


@pytest.mark.parametrize("there", ["file", "folder with a file"])
def test_nothing_is_overwritten(pratique: Program, tmp_path: Path, there: str) -> None:
    mine = tmp_path / "mine" if there == "file" else tmp_path / "mine" / "require_team.py"
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    refused = pratique("new", "policy", "RequireTeam", "--dir", str(tmp_path / "mine"))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "is there already, and is not overwritten" in refused.stderr
    assert mine.read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("RequireTeam", ("RequireTeam", "require-team", "require_team")),
        ("require-team", ("RequireTeam", "require-team", "require_team")),
        ("require_team", ("RequireTeam", "require-team", "require_team")),
        ("NoHTTPProbes2", ("NoHTTPProbes2", "no-http-probes-2", "no_http_probes_2")),
    ],
)
def test_all_names_come_from_one(text: str, names: tuple[str, str, str]) -> None:
    found = PolicyPackage.named(text)
    assert (found.name, found.package, found.module) == names


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "letters and digits"),
        ("../etc", "letters and digits"),
        ("2fast", "letters and digits"),
        ("a b", "letters and digits"),
        ("PodSecurity", "already Kubernetes'"),
        ("pod-security", "already Kubernetes'"),
        ("Json", 'a module "json"'),
        ("Class", 'a module "class"'),
        ("Pratique", 'a module "pratique"'),
    ],
)
def test_a_name_that_cannot_be_one_is_refused(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        PolicyPackage.named(name)
