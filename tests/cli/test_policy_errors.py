"""Where a policy in Python raised is told to those who run it offline, without the text of the error."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from support.controller_packages import lay_out

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

POLICY = """\
import json
from pratique import allow, rule, validator


def team_of(labels):
    return labels["team"]


def parsed(text):
    return json.loads(text)


@validator("RequireTeam", rule("pods"))
def require_team(review):
    labels = review.object["metadata"]["labels"]
    team_of(labels) if "note" not in labels else parsed(labels["note"])
    return allow()


@validator("OpenTeam", rule("pods"), failure_policy="Ignore")
async def open_team(review):
    return team_of(review.object["metadata"]["labels"])
"""
POD = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {%s}}}'
FLAGS = ("review", "--object-validation", "off", "--admission-control")


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    names = {"require": "require_team", "open": "open_team"}
    return lay_out(tmp_path / "packages", "team_policy", POLICY, **names)


@pytest.mark.parametrize(
    ("labels", "error"),
    [
        ('"tier": "secret"', "raised KeyError in team_of (packages/team_policy.py:6)"),
        # json is not the author's: the place is where the policy calls it
        ('"note": "secret"', "raised JSONDecodeError in parsed (packages/team_policy.py:10)"),
    ],
)
def test_text_and_json_name_file_and_line(pratique: Program, packages: Path, labels: str, error: str) -> None:
    ran = pratique(*FLAGS, "RequireTeam", "-", stdin=POD % labels, PYTHONPATH=str(packages))
    assert ran.returncode == 1
    assert error in ran.stdout
    assert "secret" not in ran.stdout + ran.stderr
    assert ran.stderr.startswith("pratique: a controller failed: RequireTeam: ")
    assert " < require_team (packages/team_policy.py:16) < " in ran.stderr
    as_json = pratique(*FLAGS, "RequireTeam", "-o", "json", "-", stdin=POD % labels, PYTHONPATH=str(packages))
    (step,) = json.loads(as_json.stdout)[0]["steps"]
    assert step["reason"].endswith(f'admission controller "RequireTeam" failed: {error}')


def test_a_failure_that_is_ignored_names_them_too(pratique: Program, packages: Path) -> None:
    ran = pratique(*FLAGS, "OpenTeam", "-o", "json", "-", stdin=POD % "", PYTHONPATH=str(packages))
    assert ran.returncode == 0
    (step,) = json.loads(ran.stdout)[0]["steps"]
    assert (step["outcome"], step["reason"]) == (
        "failedOpen",
        "raised KeyError in team_of (packages/team_policy.py:6)",
    )
