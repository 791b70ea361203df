from __future__ import annotations

import io

import pytest

from pratique_cli.progress import Progress
from pratique_cli.terminal import Palette, palette_for, print_problem, printable


class Terminal(io.TextIOWrapper):
    """A text stream that says it is a terminal."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding)

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variables", "asked", "colour"),
    [
        ({}, None, True),
        ({"NO_COLOR": "1"}, None, False),
        ({"NO_COLOR": ""}, None, True),
        ({"NO_COLOR": "1"}, True, True),
        ({"TERM": "dumb"}, None, False),
        ({}, False, False),
    ],
)
def test_a_terminal_gets_colour_unless_disabled(
    monkeypatch: pytest.MonkeyPatch, *, variables: dict[str, str], asked: bool | None, colour: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert palette_for(Terminal(), colour=asked).colour is colour


def test_a_pipe_gets_no_colour_unless_requested() -> None:
    assert not palette_for(io.StringIO(), colour=None).colour
    assert palette_for(io.StringIO(), colour=True).colour


@pytest.mark.parametrize(
    ("encoding", "mark"), [("utf-8", "✓"), ("ascii", "v"), ("latin-1", "v"), ("utf-16", "✓")]
)
def test_marks_fall_back_to_what_the_encoding_supports(encoding: str, mark: str) -> None:
    assert palette_for(Terminal(encoding), colour=None).mark("✓") == mark


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünïcode ✓", "plain ünïcode ✓"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("two\nlines\r", r"two\nlines\r"),
        ("\u202eright to left", r"\u202eright to left"),
        ("\x9b1mcsi", r"\x9b1mcsi"),
    ],
)
def test_foreign_text_cannot_control_the_terminal(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_long_texts_are_cut_with_an_ellipsis() -> None:
    assert Palette().cut("abcdef", 4) == "abc…"
    assert Palette(unicode=False).cut("abcdef", 5) == "ab..."
    assert Palette().cut("abc", 3) == "abc"


def test_unstyled_text_is_unchanged() -> None:
    assert Palette(colour=True).paint("text") == "text"
    assert Palette(colour=False).paint("text", "red") == "text"
    assert Palette(colour=True).paint("text", "red", "bold") == "\x1b[31m\x1b[1mtext\x1b[0m"


def test_a_problem_is_printed_to_standard_error_with_its_details_below(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_problem("a.yaml: warning", "    no such\nfield \x1b[31m")
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "pratique: a.yaml: warning\n    no such\\nfield \\x1b[31m\n")


def test_a_problem_removes_the_progress_line_first(capsys: pytest.CaptureFixture[str]) -> None:
    line = io.StringIO()
    progress = Progress(line)
    progress.update("1 reviewed")
    print_problem("unreadable", progress=progress)
    assert line.getvalue() == "\r1 reviewed\r          \r"
    assert capsys.readouterr().err == "pratique: unreadable\n"


def test_a_shorter_progress_line_overwrites_the_longer_one() -> None:
    line = io.StringIO()
    now = iter([0.0, 0.0, 1.0, 1.0])
    progress = Progress(line, lambda: next(now))
    progress.update("100 reviewed")
    progress.update("1 left")
    assert line.getvalue() == "\r100 reviewed\r1 left      "
