"""What docs/record-and-replay.md shows, executed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pratique_cli.replays.comparisons import DifferenceKind
from pratique_cli.service_options import RECORD_HELPS
from pratique_frontdoor.settings import FrontDoorSettings
from support.recordings import deployment, record

TEXT = (Path(__file__).parents[2] / "docs" / "record-and-replay.md").read_text("utf-8")
FILES = re.findall(r"^```yaml (\S+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^```console\n\$ pratique (replay .*?)\n(.+?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_the_example_prints_what_the_page_shows(
    pratique: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    for name, text in FILES:
        (tmp_path / name).write_text(text)
    password = {"name": "PASSWORD", "value": "hunter2"}
    env = {8: (password,)}
    reviews = [deployment(count, f"web-{count}", *env.get(count, ())) for count in (1, 7, 8, 9, 50)]
    record(reviews, tmp_path / "reviews.jsonl", tmp_path / "old.yaml")
    ((command, shown),) = COMMANDS
    ran = pratique(*command.split())
    assert (ran.returncode, ran.stderr) == (1, "")
    assert ran.stdout == shown


@pytest.mark.parametrize("kind", DifferenceKind)
def test_the_page_describes_every_kind_of_difference(kind: DifferenceKind) -> None:
    assert f"`{kind.value}`" in TEXT


def test_the_page_lists_every_flag_with_its_default() -> None:
    settings = FrontDoorSettings()
    assert {f"--{name.replace('_', '-')}" for name in RECORD_HELPS} <= set(
        re.findall(r"--record[a-z-]*", TEXT)
    )
    assert f"| {settings.record_max_bytes >> 20} MiB |" in TEXT
    assert f"| {settings.record_files} |" in TEXT
    assert f"| {settings.record_max_review_bytes >> 20} MiB |" in TEXT
