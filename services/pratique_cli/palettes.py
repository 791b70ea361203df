"""Palettes: colours and marks that the reader's terminal can show."""

from __future__ import annotations

import dataclasses
import os
import shutil
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from typing import TextIO

_PIPE_WIDTH = 120
"""Columns where nobody says how many there are: what a CI log shows without scrolling."""

_ASCII = {"✓": "v", "✗": "x", "·": ".", "→": "->", "…": "...", "~": "~", "!": "!", "?": "?", "─": "-"}


@dataclasses.dataclass(frozen=True, slots=True)
class Palette:
    """How text may look."""

    colour: bool = False
    """ANSI colours are shown."""
    unicode: bool = True
    """Marks beyond ASCII are shown."""
    width: int = _PIPE_WIDTH
    """Columns; longer values are cut."""

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
        """A mark, or what stands for it in ASCII."""
        return mark if self.unicode else _ASCII[mark]

    def cut(self, text: str, columns: int) -> str:
        """Shorten a text to ``columns``."""
        dots = self.mark("…")
        return text if len(text) <= columns else text[: max(0, columns - len(dots))] + dots


def palette_for(stream: TextIO, *, colour: bool | None) -> Palette:
    """Choose what ``stream`` can show.

    ``colour`` None means on a terminal, unless ``NO_COLOR`` is set (no-color.org).
    """
    terminal = stream.isatty()
    if colour is None:
        colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    columns = shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns if terminal else _PIPE_WIDTH
    return Palette(colour=colour, unicode=_shows_marks(stream), width=max(columns, 40))


def _shows_marks(stream: TextIO) -> bool:
    try:
        "".join(_ASCII).encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def printable(text: str) -> str:
    """Escape control characters: text from elsewhere must not steer the reader's terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
