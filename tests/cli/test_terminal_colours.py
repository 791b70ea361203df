from __future__ import annotations

import io

import pytest

from pratique_cli.terminal import Palette, palette_for, printable


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
