"""Every example runs as its reader would run it, and decides as its expected.json or its suite says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import forked_commands
from support.forked_commands import PROGRAM

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDERS = sorted(path for path in EXAMPLES.iterdir() if path.is_dir())
TESTED = [folder for folder in FOLDERS if (folder / "suite.yaml").exists()]
DECIDED = [folder for folder in FOLDERS if (folder / "expected.json").exists()]
BUILT = {"08-go-service": "go", "09-typescript-service": "npm"}
"""Services in other languages, and the program that builds each."""
MEASURED = ("durationMs", "endpoint")
"""Fields of a step that differ from run to run."""
BY_CHANCE = ("acted", "fields", "runs", "seen")
"""What a proof says that differs where a mutator looks at the clock, or other objects are made up."""


def written(output: str) -> list[dict[str, Any]]:
    """What is in an output: an array of decisions, or one report after another."""
    values: list[Any] = []
    decoder = json.JSONDecoder()
    while output := output.strip():
        value, end = decoder.raw_decode(output)
        values += value if isinstance(value, list) else [value]
        output = output[end:]
    return values


def certain(told: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in told.items() if key not in BY_CHANCE}


def comparable(decision: dict[str, Any]) -> dict[str, Any]:
    if "findings" in decision:
        told = {key: [certain(each) for each in decision[key]] for key in ("mutators", "findings")}
        return decision | told
    steps = [{key: value for key, value in step.items() if key not in MEASURED} for step in decision["steps"]]
    decision = {key: value for key, value in decision.items() if key != "source"}
    return decision | {"steps": steps, "expanded": [comparable(pod) for pod in decision["expanded"]]}


def run(folder: Path, output: str, seconds: float = 480) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["sh", str(folder / "run.sh"), output],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


@pytest.mark.parametrize("folder", DECIDED, ids=lambda folder: folder.name)
def test_an_example_decides_as_expected(folder: Path) -> None:
    done = run(folder, "json")
    assert done.returncode == 1, done.stderr
    expected = json.loads((folder / "expected.json").read_text())
    assert [comparable(decision) for decision in written(done.stdout)] == expected


@pytest.mark.parametrize("folder", TESTED, ids=lambda folder: folder.name)
def test_an_example_passes_its_own_suite(folder: Path) -> None:
    done = run(folder, "json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {result["outcome"] for result in report["results"]} == {"passed"}
    assert report["coverage"]["percent"] == 100


@pytest.mark.long
@pytest.mark.parametrize(("name", "builder"), BUILT.items(), ids=BUILT)
def test_an_example_in_another_language_keeps_the_contract(name: str, builder: str, tmp_path: Path) -> None:
    if shutil.which(builder) is None:
        pytest.skip(f"{builder} is not installed")
    folder = tmp_path / "examples" / name
    shutil.copytree(EXAMPLES / name, folder)
    (tmp_path / "proto").symlink_to(EXAMPLES.parent / "proto")
    done = run(folder, "json", seconds=600)
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = {result["outcome"] for result in json.loads(done.stdout)}
    assert outcomes <= {"kept", "advised", "skipped"}
    assert "kept" in outcomes


@pytest.mark.parametrize("service", ["mutator", "validator"])
def test_the_services_in_python_keep_the_contract(grpc_services: str, service: str) -> None:
    flags = ["--service", service, "--timeout", "30s", "-o", "json"]
    done = forked_commands.run([PROGRAM, "verify", grpc_services, *flags])
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = [result["outcome"] for result in json.loads(done.stdout)]
    assert outcomes.count("kept") > 20


@pytest.fixture(name="grpc_services", scope="module")
def _grpc_services() -> Iterator[str]:
    """The address of the services of ``02-grpc-webhooks``, which end with their process."""
    command = [sys.executable, str(EXAMPLES / "02-grpc-webhooks" / "serve.py"), "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"127.0.0.1:{process.stdout.readline().split()[-1]}"
        finally:
            process.kill()


def test_every_example_is_run() -> None:
    assert sorted({*TESTED, *DECIDED, *(EXAMPLES / name for name in BUILT)}) == FOLDERS


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_an_example_says_what_it_shows(folder: Path) -> None:
    assert (folder / "README.md").read_text().startswith("# ")
    assert "run.sh" in (folder / "README.md").read_text()


def test_an_example_finds_the_environment_of_its_checkout() -> None:
    program = EXAMPLES.parent / ".venv" / "bin" / "pratique"
    if not program.exists():
        pytest.skip("the suite runs from another environment")
    ran = run_bare(EXAMPLES)
    assert ran.returncode == 1
    assert "denied" in ran.stdout


def test_an_example_says_what_is_missing(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "04-cel-policies", tmp_path / "04-cel-policies")
    shutil.copy(EXAMPLES / "environment.sh", tmp_path)
    ran = run_bare(tmp_path)
    assert ran.returncode == 127
    assert "pratique is not installed: run 'make up' once" in ran.stderr


def test_an_example_says_which_package_it_needs_besides(tmp_path: Path) -> None:
    (tmp_path / "pratique").write_text("#!/bin/sh\n")
    (tmp_path / "pratique").chmod(0o755)
    script = f"PATH={tmp_path}:$PATH; cd {EXAMPLES / '04-cel-policies'}; . ../environment.sh; needs no_such no-such"
    ran = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=False)
    assert ran.returncode == 127
    assert "this example needs no-such as well: " in ran.stderr
    assert ran.stderr.endswith("/python -m pip install no-such\n")


def run_bare(examples: Path) -> subprocess.CompletedProcess[str]:
    """Run an example as somebody who has activated no environment."""
    return subprocess.run(
        ["/bin/sh", str(examples / "04-cel-policies" / "run.sh")],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
