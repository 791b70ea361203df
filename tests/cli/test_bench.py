"""``pratique bench``: what a chain costs, and which step takes the time."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

EXAMPLE = Path(__file__).parents[2] / "examples" / "04-cel-policies"
INPUTS = (
    *("--config", str(EXAMPLE / "policies.yaml")),
    *("--cluster", str(EXAMPLE / "cluster.yaml")),
    str(EXAMPLE / "input.yaml"),
)
PAGE = Path(__file__).parents[2] / "docs" / "benchmarking-policies.md"


def measured(ran: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert ran.returncode == 0, ran.stderr
    document: dict[str, Any] = json.loads(ran.stdout)
    return document


def test_it_measures_each_policy_and_the_whole(pratique: Program) -> None:
    cost = measured(pratique("bench", "--seconds", "300ms", "-o", "json", *INPUTS))
    named = {(step["controller"], step["name"]): step for step in cost["steps"]}
    policy = named["ValidatingAdmissionPolicy", "replicas"]
    assert 0 < policy["calls"] <= cost["reviews"]
    assert 0 < policy["share"] < 1
    assert cost["medianMs"] <= cost["p99Ms"]
    assert [step["share"] for step in cost["steps"]] == sorted(
        (step["share"] for step in cost["steps"]), reverse=True
    )


def test_two_configurations_decide_the_same_reviews_as_often(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "none.yaml").write_text('{"apiVersion": "v1", "kind": "List", "items": []}')
    compared = measured(
        pratique("bench", "--seconds", "300ms", "-o", "json", *INPUTS, "--against", "none.yaml")
    )
    other = compared["against"]
    assert compared["reviews"] == other["reviews"]
    assert not [step for step in other["steps"] if step["controller"].endswith("Policy")]
    assert compared["ratio"]["cpu"] == pytest.approx(compared["cpuMs"] / other["cpuMs"], rel=0.05)


def test_the_page_shows_what_the_command_shows(pratique: Program) -> None:
    text = PAGE.read_text("utf-8")
    (command,) = re.findall(r"^```sh\npratique (.*)\n```$", text, re.MULTILINE)
    words = [word.replace("examples/04-cel-policies", str(EXAMPLE)) for word in command.split()]
    ran = pratique(*words)
    assert ran.returncode == 0, ran.stderr
    steps = re.compile(r"(?:mutate|validate) \S.*$", re.MULTILINE)
    shown = set(steps.findall(text.partition("```text\n")[2].partition("```")[0]))
    assert shown == set(steps.findall(ran.stdout))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seconds", "601s", "input.yaml"], "write 600s or less"),
        (["empty.yaml"], "the files hold no documents"),
    ],
)
def test_what_cannot_be_measured_is_one_clear_error(
    pratique: Program, tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "input.yaml").write_text((EXAMPLE / "input.yaml").read_text())
    (tmp_path / "empty.yaml").write_text('{"apiVersion": "v1", "kind": "List", "items": []}')
    ran = pratique("bench", "--seconds", "100ms", *arguments)
    assert ran.returncode == 2
    assert said in ran.stderr
