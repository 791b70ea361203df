"""Colours, marks and progress that the reader's terminal can show."""

from __future__ import annotations

import dataclasses
import os
import shutil
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import click
import yaml

from pratique.apimachinery import yaml_values
from pratique.apimachinery.json_values import JSON

if TYPE_CHECKING:
    from typing import TextIO

    from pratique_cli.outputs import Tally

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
    return Palette(colour=colour, unicode=_can_encode_marks(stream), width=max(columns, 40))


def _can_encode_marks(stream: TextIO) -> bool:
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


INTERVAL_SECONDS = 0.25
"""Four times a second: often enough to look alive, seldom enough to cost nothing."""


class Progress:
    """One line on a stream, written again and again, and gone at the end."""

    __slots__ = ("_clock", "_due", "_shown", "_stream")

    def __init__(self, stream: TextIO | None, clock: Callable[[], float] = time.monotonic) -> None:
        """Show on ``stream``; on none, nothing is ever shown."""
        self._stream = stream
        self._clock = clock
        self._due = float("-inf")
        self._shown = 0

    def show(self, tally: Tally) -> None:
        """Tell how many documents came to what, unless that was told a moment ago."""
        self.tell(f"{tally.admitted + tally.denied} reviewed, {tally.denied} denied")

    def tell(self, line: str) -> None:
        """Tell something short, unless something was told a moment ago."""
        if self._stream is None or self._clock() < self._due:
            return
        # Blanks instead of control sequences: every terminal knows those.
        self._stream.write(f"\r{line.ljust(self._shown)}")
        self._stream.flush()
        self._shown = len(line)
        self._due = self._clock() + INTERVAL_SECONDS

    def clear(self) -> None:
        """Take the line away, for something else to be written or for good."""
        if self._stream is None or not self._shown:
            return
        self._stream.write(f"\r{' ' * self._shown}\r")
        self._stream.flush()
        self._shown = 0


def progress_for(errors: TextIO | None, output: TextIO | None) -> Progress:
    """Show on standard error where that is a terminal, and decisions do not run over the same one."""
    seen = errors is not None and errors.isatty() and not (output is not None and output.isatty())
    return Progress(errors if seen else None)


_BaseDumper = cast("type[yaml.SafeDumper]", getattr(yaml, "CSafeDumper", yaml.SafeDumper))

_NEVER_FOLD = 1 << 30
"""Columns; folded strings would make one changed word look like several changed lines."""


class _Dumper(_BaseDumper):  # type: ignore[misc, valid-type]  # libyaml's dumper where PyYAML has it
    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # PyYAML knows fewer ways to write a number than kubectl does: 0E0 is one.
    plain = isinstance(yaml_values.resolve(text), str)
    style = "|" if "\n" in text else None if plain else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def dump_yaml(value: JSON, *, sort: bool = False) -> str:
    """Write a JSON value as YAML, members in their own order, or sorted, so that objects can be compared."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=sort, allow_unicode=True, width=_NEVER_FOLD)
    return text
