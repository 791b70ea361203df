"""One version, in every place that names it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
VERSION: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
HEADING = re.compile(r"^## \[([^]]+)\](.*)$", re.MULTILINE)


def test_the_changelog_begins_with_the_version() -> None:
    newest, rest = HEADING.findall((ROOT / "CHANGELOG.md").read_text("utf-8"))[0]
    assert newest == VERSION
    assert re.fullmatch(r" - (Unreleased|\d{4}-\d{2}-\d{2})", rest)


@pytest.mark.parametrize("field", ["version", "appVersion"])
def test_the_chart_has_the_version(field: str) -> None:
    chart = yaml.safe_load((ROOT / "deploy" / "helm" / "pratique" / "Chart.yaml").read_text())
    assert chart[field] == VERSION


def test_every_make_target_of_the_checklist_exists() -> None:
    page = (ROOT / "docs" / "releasing.md").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z-]+)", page))
    assert named
    assert named <= targets
