from __future__ import annotations

from pathlib import Path

import pytest

RECORDS = sorted((Path(__file__).parents[2] / "docs" / "adr").glob("0*.md"))


def test_records_are_numbered_without_gaps() -> None:
    assert [record.name[:4] for record in RECORDS] == [
        f"{number:04}" for number in range(1, len(RECORDS) + 1)
    ]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_a_record_has_its_four_parts_on_one_page(record: Path) -> None:
    lines = record.read_text().splitlines()
    assert lines[0].startswith(f"# {record.name[:4]}: ")
    headings = [line for line in lines if line.startswith("## ")]
    assert headings == ["## Status", "## Context", "## Decision", "## Consequences"]
    assert len(lines) <= 60


def test_the_index_lists_every_record() -> None:
    index = RECORDS[0].with_name("README.md").read_text()
    assert all(f"({record.name})" in index for record in RECORDS)
