"""Tables for people: rows in columns, by rich on a terminal, and by blanks elsewhere or where rich is not installed."""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pratique_cli.terminal import Palette, printable

if TYPE_CHECKING:
    from rich.table import Table  # rich is loaded only for a terminal

_GAP = "  "
_MOST_RICH_ROWS = 2000
"""More rows than this take rich seconds, and nobody reads them on a screen."""


class Column(NamedTuple):
    """A column of a table."""

    title: str
    right: bool = False
    """Whether its cells are aligned to the right, as numbers are."""
    keep: bool = True
    """Whether it keeps its width where a terminal is narrow; the others are wrapped first."""


class Row(msgspec.Struct, frozen=True):
    """A row of a table."""

    cells: Sequence[str]
    """One for each column; control characters in them are escaped."""
    styles: Sequence[str] = ()
    """How the first cell looks: colours, ``bold`` and ``dim``."""


def table_text(columns: Sequence[Column], rows: Sequence[Row], palette: Palette) -> str:
    """Lay out a table with its head, for a stream with this palette.

    A terminal gets all of each cell, wrapped to its width. Everything else gets one line for each row, however long.
    """
    safe = [Row([printable(cell) for cell in row.cells], row.styles) for row in rows]
    if palette.terminal and len(rows) <= _MOST_RICH_ROWS:
        shown = _rich_text(columns, safe, palette)
        if shown is not None:
            return shown
    return _plain_text(columns, safe, palette)


def display_width(text: str) -> int:
    """Count the columns that a text takes on a screen: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(map(_columns_of, text))


def _columns_of(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def _plain_text(columns: Sequence[Column], rows: Sequence[Row], palette: Palette) -> str:
    head = Row([column.title for column in columns], ("bold",))
    lines = [head, *rows]
    widths = [max(display_width(line.cells[number]) for line in lines) for number in range(len(columns))]
    return "".join(_plain_line(columns, line, widths, palette) for line in lines)


def _plain_line(columns: Sequence[Column], row: Row, widths: Sequence[int], palette: Palette) -> str:
    cells = []
    for column, text, width in zip(columns, row.cells, widths, strict=True):
        blanks = " " * (width - display_width(text))
        cells.append((blanks + text) if column.right else (text + blanks))
    line = _GAP.join([palette.paint(cells[0], *row.styles), *cells[1:]])
    return line.rstrip() + "\n"


def _rich_text(columns: Sequence[Column], rows: Sequence[Row], palette: Palette) -> str | None:
    """Lay out a table by rich; None if that is not installed."""
    try:
        from rich.console import Console  # noqa: PLC0415 - only where a person looks, and where it is installed
    except ModuleNotFoundError:
        return None
    out = io.StringIO()
    console = Console(
        file=out,
        width=palette.width,
        force_terminal=palette.colour,
        color_system="standard" if palette.colour else None,
        no_color=not palette.colour,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    console.print(_rich_table(columns, rows))
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def _rich_table(columns: Sequence[Column], rows: Sequence[Row]) -> Table:
    from rich.table import Table  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    table = Table(box=None, pad_edge=False, padding=(0, len(_GAP), 0, 0), header_style="bold")
    for column in columns:
        table.add_column(
            Text(column.title),
            justify="right" if column.right else "left",
            no_wrap=column.keep,
            overflow="fold",
        )
    for row in rows:
        first, *rest = row.cells
        table.add_row(Text(first, " ".join(row.styles)), *map(Text, rest))
    return table
