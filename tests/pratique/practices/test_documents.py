"""The table of advice names every rule, and none that is not there."""

from __future__ import annotations

import re
from pathlib import Path

from pratique.practices.registry import PRACTICES

PAGE = Path(__file__).parents[3] / "docs" / "practices.md"
NAME = re.compile(r"`([a-z-]+)`")


def rows() -> list[list[str]]:
    """The advice, rules and remark of every row."""
    _, _, tables = PAGE.read_text("utf-8").partition("## Advice and rules")
    cells = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in tables.splitlines() if line[:1] == "|"
    ]
    return [row for row in cells if row[1] != "rule" and not row[1].startswith("---")]


def test_every_rule_is_in_the_table_and_no_other() -> None:
    assert len(rows()) > 40
    named = {name for _, rules, _ in rows() for name in NAME.findall(rules)}
    assert named == {practice.rule for practice in PRACTICES}


def test_what_no_rule_checks_has_a_reason() -> None:
    assert not [advice for advice, rules, remark in rows() if not NAME.findall(rules) and not remark]
