"""The table of advice names exactly the existing rules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pratique.lint.registry import LINT_RULES
from pratique_cli.main import SUMMARIES
from support.lint_findings import findings_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "lint.md"
NAME = re.compile(r"`([a-z-]+)`")
COMMAND = re.compile(r"`pratique ([a-z]+)")
EXAMPLE = re.compile(r"```yaml (\S+)\n(.*?)```\n\n```console\n\$ pratique check (\S+)\n(.*?)```", re.DOTALL)


def rows() -> list[list[str]]:
    """The advice, rules and remark of every row."""
    _, _, tables = PAGE.read_text("utf-8").partition("## Advice and rules")
    cells = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in tables.splitlines() if line[:1] == "|"
    ]
    return [row for row in cells if row[1] != "rule" and not row[1].startswith("---")]


def test_the_table_lists_exactly_the_rules() -> None:
    assert len(rows()) > 40
    named = {name for _, rules, _ in rows() for name in NAME.findall(rules)}
    assert named == {lint_rule.name for lint_rule in LINT_RULES}


def test_advice_without_a_rule_gives_a_reason() -> None:
    assert not [advice for advice, rules, remark in rows() if not NAME.findall(rules) and not remark]


def test_the_page_names_only_existing_commands() -> None:
    named = set(COMMAND.findall(PAGE.read_text("utf-8")))
    assert named >= {"check", "prove", "replay", "review", "test"}
    assert named <= set(SUMMARIES)


def test_the_deadlock_of_the_example_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ((name, text, checked, shown),) = EXAMPLE.findall(PAGE.read_text("utf-8"))
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(text)
    (finding,) = findings_of(Path(checked))
    assert shown == f"pratique: {finding}\nvalid, with 1 error\n"
