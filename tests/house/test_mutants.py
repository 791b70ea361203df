"""What `make mutants` breaks exists, and so do the tests that have to notice."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(name="targets")
def _targets(root: Path) -> list[dict[str, Any]]:
    targets: list[dict[str, Any]] = tomllib.loads((root / "tests/mutants/targets.toml").read_text())["target"]
    return targets


def test_every_module_to_break_exists(targets: list[dict[str, Any]], root: Path) -> None:
    modules = {target["module"] for target in targets}
    assert {module for module in modules if not (root / module).is_file()} == set()


def test_nothing_is_broken_twice(targets: list[dict[str, Any]]) -> None:
    broken = [
        (target["module"], name) for target in targets for name in target.get("definitions", ["the rest"])
    ]
    assert len(set(broken)) == len(broken)


def test_every_test_that_has_to_notice_exists(targets: list[dict[str, Any]], root: Path) -> None:
    named = [test.partition("::") for target in targets for test in target["tests"]]
    missing = [
        file for file, _, name in named if name.partition("[")[0] not in (root / file).read_text("utf-8")
    ]
    assert missing == []


def test_every_definition_to_break_exists(targets: list[dict[str, Any]], root: Path) -> None:
    missing = []
    for target in targets:
        tree = ast.parse((root / target["module"]).read_text("utf-8"))
        there = {getattr(node, "name", None) for node in ast.walk(tree)}
        missing += [name for name in target.get("definitions", ()) if name not in there]
    assert missing == []


def test_every_harmless_mutant_says_why(targets: list[dict[str, Any]]) -> None:
    assert [entry for target in targets for entry in target.get("harmless", ()) if not entry["why"]] == []


def test_what_is_broken_by_hand_stands_in_its_module_once(targets: list[dict[str, Any]], root: Path) -> None:
    found = {
        entry["before"]: (root / target["module"]).read_text("utf-8").count(entry["before"])
        for target in targets
        for entry in target.get("by_hand", ())
    }
    assert {text: count for text, count in found.items() if count != 1} == {}
