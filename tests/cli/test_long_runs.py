"""Runs over many documents: all are decided, and a terminal shows the progress."""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from pratique_cli.outputs import ReviewCounts
from pratique_cli.progress import INTERVAL_SECONDS, Progress

MANY = 2000


def config_maps(count: int) -> str:
    return "".join(
        json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{number}"}}) + "\n"
        for number in range(count)
    )


def test_thousands_of_piped_manifests_are_all_reviewed(
    pratique: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    ran = pratique("review", "-o", "jsonl", "-", stdin=config_maps(MANY))
    names = [json.loads(line)["object"]["metadata"]["name"] for line in ran.stdout.splitlines()]
    assert names == [f"c{number}" for number in range(MANY)]
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_terminal_on_standard_error_shows_progress(
    errors_on_terminal: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "many.jsonl").write_text(config_maps(20))
    shown = errors_on_terminal(
        "review", "--enable-admission-plugins", "AlwaysDeny", "-o", "jsonl", "many.jsonl"
    )
    assert "\r1 reviewed, 1 denied" in shown
    assert shown.endswith("\r")
    assert shown.split("\r")[-2].isspace()
    assert len((tmp_path / "out").read_text().splitlines()) == 20


def test_problems_are_printed_on_their_own_lines(
    errors_on_terminal: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "many.jsonl").write_text(config_maps(1) + "nonsense\n" + config_maps(1))
    shown = errors_on_terminal("review", "many.jsonl")
    assert "\rpratique: many.jsonl: " in shown


def test_progress_is_updated_at_most_a_few_times_a_second() -> None:
    now = 0.0
    stream = io.StringIO()
    progress = Progress(stream, lambda: now)
    for number in range(1, 101):
        progress.show_counts(ReviewCounts(admitted=number, denied=1))
        now += INTERVAL_SECONDS / 10
    assert stream.getvalue().count("\r") == 10
    progress.clear()
    progress.clear()
    assert stream.getvalue().split("\r")[-2:] == [" " * len("92 reviewed, 1 denied"), ""]


def test_without_a_terminal_no_progress_is_shown() -> None:
    progress = Progress(None)
    progress.show_counts(ReviewCounts(admitted=1))
    progress.clear()
