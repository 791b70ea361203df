"""docs/observability.md: its tables list the metrics and log fields of services."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from pratique.telemetry.logs import FIELDS

DOCUMENT = (Path(__file__).parents[3] / "docs" / "observability.md").read_text("utf-8")
ROW = re.compile(
    r"^\| `(\w+)` \| (counter|gauge|histogram) \| ([^|]*) \| ([fmv, ]+) \| (.+) \|$", re.MULTILINE
)
ROWS = ROW.findall(DOCUMENT)
LETTERS = {"frontdoor": "f", "mutator": "m", "validator-1": "v"}


def families(text: str) -> dict[str, Metric]:
    found = text_string_to_metric_families(text)
    return {f"{family.name}{'_total' if family.type == 'counter' else ''}": family for family in found}


@pytest.mark.parametrize(("service", "letter"), LETTERS.items())
def test_the_table_lists_exactly_the_metrics_of_each_service(
    shown: dict[str, str], service: str, letter: str
) -> None:
    assert {name for name, _, _, of, _ in ROWS if letter in of} == families(shown[service]).keys()


def test_the_table_has_the_types_and_labels_of_the_metrics(shown: dict[str, str]) -> None:
    written = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels, _, _ in ROWS}
    for text in shown.values():
        for name, family in families(text).items():
            kind, labels = written[name]
            # Two of the API server's counters do not end in _total, which the format has no type for.
            assert family.type in {kind, "unknown", "untyped"}, name
            seen = {label for sample in family.samples for label in sample.labels} - {"le"}
            assert not seen or seen == labels, name


def test_the_table_lists_the_fields_of_the_logs() -> None:
    logs = DOCUMENT.partition("## Logs")[2].partition("## Traces")[0]
    assert dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", logs, re.MULTILINE)) == FIELDS
