"""Progress of long work: seen by a person at a terminal, and by nobody else."""

from __future__ import annotations

import io
import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from cli.conftest import clean_environment, read_terminal
from pratique_cli.progress import INTERVAL_SECONDS, Progress, progress_for
from pratique_cli.terminal import Palette
from support.forked_commands import PROGRAM, ForkedCommand
from support.recordings import deployment, record

Errors: TypeAlias = "Callable[..., str]"
Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

SCREEN = Palette(terminal=True, width=80)
MAPS = "".join(
    f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{number}}}\n---\n" for number in range(300)
)


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown_after(seconds: float, done: float, palette: Palette | None = None, total: float = 200) -> str:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(stream, clock, palette)
    progress.expect(total)
    progress.advance(done)
    clock.now = seconds
    progress.update("3 tried")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("seconds", "done", "text"),
    [
        (10, 0, "\r3 tried, 0%"),
        (10, 2, "\r3 tried, 1%"),
        (10, 100, "\r3 tried, 50%, 0:10 left"),
        (30, 50, "\r3 tried, 25%, 1:30 left"),
        (3600, 20, "\r3 tried, 10%, 9:00:00 left"),
        (10, 200, "\r3 tried, 100%, 0:00 left"),
        (10, 300, "\r3 tried, 100%, 0:00 left"),
    ],
)
def test_the_share_and_the_time_left_follow_from_what_is_done(seconds: float, done: float, text: str) -> None:
    assert shown_after(seconds, done) == text


def test_without_a_total_only_the_text_is_shown() -> None:
    assert shown_after(10, 5, SCREEN, total=0) == "\r3 tried"


def test_a_terminal_gets_a_bar_for_what_takes_long() -> None:
    assert shown_after(0.5, 100, SCREEN) == "\r3 tried, 50%, 0:00 left"
    assert shown_after(10, 100, SCREEN) == f"\r{'━' * 12} 3 tried, 50%, 0:10 left\x1b[K"


def test_a_bar_has_the_colours_and_characters_of_the_terminal() -> None:
    coloured = Palette(terminal=True, width=80, colour=True)
    assert "\x1b[32m━" in shown_after(10, 100, coloured)
    assert "-" * 11 in shown_after(10, 100, Palette(terminal=True, width=80, unicode=False))


def test_the_line_is_never_wider_than_the_terminal() -> None:
    narrow = shown_after(10, 100, Palette(terminal=True, width=40))
    assert len(narrow.strip("\r").removesuffix("\x1b[K")) < 40


def test_clearing_removes_the_bar_and_the_next_update_shows_it_again() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(stream, clock, SCREEN)
    progress.expect(2)
    clock.now = 2.0
    progress.update("a")
    progress.clear()
    assert stream.getvalue().endswith(" \r")
    assert progress.is_shown
    clock.now += INTERVAL_SECONDS
    progress.update("b")
    assert "b, 0%" in stream.getvalue()


@pytest.mark.parametrize(
    ("errors", "output", "streams", "shown"),
    [
        (None, Screen(), True, False),
        (io.StringIO(), Screen(), False, False),
        (Screen(), io.StringIO(), True, True),
        (Screen(), Screen(), True, False),
        (Screen(), Screen(), False, True),
    ],
)
def test_progress_is_shown_on_terminals_that_do_not_show_it_already(
    errors: io.StringIO | None, output: io.StringIO, *, streams: bool, shown: bool
) -> None:
    assert progress_for(errors, output, streams=streams).is_shown is shown


@pytest.fixture
def maps(tmp_path: Path) -> Path:
    (tmp_path / "many.yaml").write_text(MAPS)
    return tmp_path


@pytest.mark.usefixtures("maps")
def test_a_review_tells_the_share_of_the_bytes_that_it_has_done(errors_on_terminal: Errors) -> None:
    shown = errors_on_terminal("review", "-o", "jsonl", "--jobs", "1", "many.yaml")
    assert "1 reviewed, 0 denied, 0%" in shown


def test_a_rollout_tells_the_share_of_the_recording_that_it_has_read(
    errors_on_terminal: Errors, tmp_path: Path
) -> None:
    record([deployment(1)] * 3, tmp_path / "long.jsonl")
    shown = errors_on_terminal("rollout", "long.jsonl")
    assert shown.startswith("\r1 reviewed, 0%")
    assert "no decision in shadow in 3 reviews" in shown
    assert "reviewed, " not in errors_on_terminal("rollout", "--no-progress", "long.jsonl")


@pytest.mark.usefixtures("maps")
@pytest.mark.parametrize("command", ["review", "bench --seconds 100ms"])
def test_no_progress_means_none(errors_on_terminal: Errors, command: str) -> None:
    assert errors_on_terminal(*command.split(), "--no-progress", "many.yaml") == ""


@pytest.mark.usefixtures("maps")
@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        (["-o", "table"], True),
        (["--only", "denied"], True),
        (["-o", "text"], False),
        (["-o", "table", "-q"], False),
    ],
)
def test_a_terminal_shows_progress_where_results_do_not(
    on_terminal: Callable[..., str], flags: list[str], *, shown: bool
) -> None:
    output = on_terminal("review", *flags, "many.yaml")
    assert ("1 reviewed, 0 denied, 0%" in output) is shown
    assert "300 reviewed, 300 admitted" in output or "-q" in flags


def test_progress_makes_room_for_a_denial(on_terminal: Callable[..., str], tmp_path: Path) -> None:
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: a, image: b}]}\n"
    (tmp_path / "many.yaml").write_text(f"{MAPS}{pod}")
    output = on_terminal(
        "review",
        "--only",
        "denied",
        "--admission-control",
        "PodSecurity",
        "--pod-security",
        "restricted",
        "many.yaml",
        NO_COLOR="1",
    )
    line = next(line for line in output.split("\n") if "denied    Pod" in line)
    assert line.rpartition("\r")[2].startswith("✗ denied")


@pytest.mark.parametrize("command", ["review -", "review -o table", "bench --seconds 100ms -"])
def test_pipes_get_no_progress(pratique: Program, command: str) -> None:
    ran = pratique(*command.split(), stdin=MAPS)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "\r" not in ran.stdout


def test_bench_counts_its_time(maps: Path) -> None:
    ours, theirs = pty.openpty()
    command = [str(PROGRAM), "bench", "--seconds", "3s", "many.yaml"]
    with ForkedCommand(
        command, stdout=subprocess.DEVNULL, stderr=theirs, cwd=maps, env=clean_environment(TERM="xterm")
    ):
        os.close(theirs)
        shown = b"".join(iter(lambda: read_terminal(ours), b"")).decode()
    os.close(ours)
    assert "━" in shown
    assert " left" in shown
    assert shown.endswith("\r")
