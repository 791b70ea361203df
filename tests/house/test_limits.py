"""The page of limits says what the settings say, and leaves none of them out."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pratique.apimachinery import json_reading
from pratique.apimachinery.patches import COPY_LIMIT
from pratique.hosting.running import MAX_OPERATIONS
from pratique.https.sessions import BODY_LIMIT
from pratique.processes import review_threads
from pratique.rpc.servers import ServerSettings
from pratique.rpc.wire_format import MAX_FIELDS
from pratique_frontdoor.settings import FrontDoorSettings

PAGE = (Path(__file__).parents[2] / "docs" / "limits.md").read_text()
ROW = re.compile(r"^\| `--(?P<flag>[a-z-]+)` \| (?P<default>[0-9.]+) \|", re.MULTILINE)
ELSEWHERE = {"answer_margin_seconds", "port"}
"""Numbers that limit nobody."""


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def told(title: str) -> dict[str, str]:
    return {found["flag"].replace("-", "_"): found["default"] for found in ROW.finditer(section(title))}


def numbers(settings: type[Any]) -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(settings):
        if (
            field.type in {"int", "float"}
            and field.name not in ELSEWHERE
            and not field.name.startswith(("record", "decision_log"))
        ):
            yield field.name, field.default


@pytest.mark.parametrize(
    ("title", "settings"), [("The front door", FrontDoorSettings), ("The services", ServerSettings)]
)
def test_every_limit_is_told_with_its_default(title: str, settings: type[Any]) -> None:
    page = told(title)
    kept = dict(numbers(settings))
    assert {name: str(default) for name, default in kept.items() if name in page} == page
    assert set(kept) - set(page) <= ({"drain_seconds"} if settings is ServerSettings else set())


@pytest.mark.parametrize(
    ("title", "limit"),
    [
        ("JSON", f"| {json_reading.MAX_LEVELS} |"),
        ("JSON", f"| {json_reading.MAX_VALUES} | 400, `holds {json_reading.TOO_MANY_VALUES}` |"),
        ("JSON", f"more than {review_threads.INLINE_BYTES} bytes"),
        ("JSON", f"more than {review_threads.INLINE_VALUES} values"),
        ("JSON", f"more than {review_threads.LARGE_VALUES} values"),
        ("JSON", f"more than {json_reading.WHOLE_VALUES} values"),
        ("Patches", f"| {MAX_OPERATIONS} |"),
        ("Patches", f"| {COPY_LIMIT} bytes |"),
        ("Patches", f"| {json_reading.MAX_VALUES} |"),
        ("Answers of webhooks", f"| {BODY_LIMIT} bytes |"),
        ("Answers of webhooks", f"| {json_reading.MAX_VALUES} |"),
        ("Answers of webhooks", f"| {MAX_FIELDS} |"),
    ],
)
def test_limits_that_are_no_flags_are_told_as_they_are(title: str, limit: str) -> None:
    assert limit in section(title)
