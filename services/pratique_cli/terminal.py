"""Colours and marks on terminals, and safe printing of foreign text."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from typing import TYPE_CHECKING, TextIO

import click
import msgspec

from pratique.apimachinery.patterns import pattern

if TYPE_CHECKING:
    from pratique_cli.progress import Progress

_PIPE_WIDTH = 120
"""Columns of output that is not a terminal: what a CI log shows without scrolling."""

_ASCII = {"✓": "v", "✗": "x", "·": ".", "→": "->", "…": "...", "~": "~", "!": "!", "?": "?", "─": "-"}


class Palette(msgspec.Struct, frozen=True):
    """The colours, marks and width that a stream supports."""

    colour: bool = False
    """Whether to use ANSI colours."""
    unicode: bool = True
    """Whether to use marks beyond ASCII."""
    width: int = _PIPE_WIDTH
    """The number of columns; longer values are cut."""
    terminal: bool = False
    """Whether the stream is a terminal, at which a person looks."""

    def paint(self, text: str, *styles: str) -> str:
        """Colour a text; ``bold`` and ``dim`` are styles, anything else a colour."""
        if not self.colour or not text or not styles:
            return text
        colours = [style for style in styles if style not in {"bold", "dim"}]
        return click.style(
            text,
            fg=colours[0] if colours else None,
            bold="bold" in styles or None,
            dim="dim" in styles or None,
        )

    def mark(self, mark: str) -> str:
        """A mark, or its ASCII replacement."""
        return mark if self.unicode else _ASCII[mark]

    def cut(self, text: str, columns: int) -> str:
        """Shorten a text to ``columns``."""
        dots = self.mark("…")
        return text if len(text) <= columns else text[: max(0, columns - len(dots))] + dots


def palette_for(stream: TextIO, *, colour: bool | None) -> Palette:
    """Find out what ``stream`` can show.

    ``colour`` None means colours on a terminal, unless ``NO_COLOR`` is set (no-color.org).
    """
    terminal = stream.isatty()
    if colour is None:
        colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    columns = shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns if terminal else _PIPE_WIDTH
    return Palette(
        colour=colour, unicode=_can_encode_marks(stream), width=max(columns, 40), terminal=terminal
    )


def _can_encode_marks(stream: TextIO) -> bool:
    try:
        "".join(_ASCII).encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


COMMANDS = pattern(r"(?<=#)#(?=\[|vso\[)")
"""The second ``#`` of ``##[`` and ``##vso[``, which GitHub Actions and Azure Pipelines take for commands to themselves,
wherever they are in a line of a log: ``src/Runner.Common/ActionCommand.cs`` of https://github.com/actions/runner."""


def printable(text: str) -> str:
    """Escape control characters and commands to CI, so that foreign text controls neither a terminal nor a job."""
    if "##" in text:
        text = COMMANDS.sub(r"\\x23", text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def print_problem(*lines: str, progress: Progress | None = None) -> None:
    """Print a problem to standard error, after the output so far; ``progress`` is cleared before that."""
    if progress is not None:
        progress.clear()
    sys.stdout.flush()
    click.echo("pratique: " + "\n".join(map(printable, lines)), err=True)


def print_log_records() -> None:
    """Print warnings and errors that are logged as problems, as long as no service logs by a handler of its own."""
    logging.lastResort = _LogPrinter(logging.WARNING)


class _LogPrinter(logging.Handler):
    """Prints what is logged, with the fields that say what went wrong with which part; offline, nobody else would."""

    _FIELDS = ("controller", "ledger", "error", "reason")

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record in one line."""
        fields = [str(getattr(record, name)) for name in self._FIELDS if getattr(record, name, "")]
        print_problem(": ".join([record.getMessage(), *fields]))
