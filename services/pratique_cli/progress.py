"""Progress of long work: one line on a terminal's standard error, with how much is done and the time that is left."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from pratique_cli.options import flag
from pratique_cli.terminal import Palette, palette_for

if TYPE_CHECKING:
    from pratique_cli.outputs import ReviewCounts

INTERVAL_SECONDS = 0.25
"""How often progress is updated: four times a second looks alive and costs nothing."""
_BAR_AFTER_SECONDS = 1.0
"""Short work gets no bar, and so does not load rich for it."""
_BAR_COLUMNS = 24
_ESTIMATE_AFTER = 0.02
"""The share of the work from which on the time left is told; before, it would jump about."""
_ERASE_REST = "\x1b[K"

no_progress_flag = flag(
    "--no-progress",
    is_flag=True,
    help="Show no progress. By default: on standard error, if that is a terminal.",
)
"""Add ``--no-progress`` to a command, which gets it as ``no_progress``."""


class Progress:
    """A line on a stream, rewritten in place and removed at the end."""

    __slots__ = ("_clock", "_done", "_due", "_palette", "_shown", "_started", "_stream", "_total")

    def __init__(
        self,
        stream: TextIO | None,
        clock: Callable[[], float] = time.monotonic,
        palette: Palette | None = None,
    ) -> None:
        """Show progress on ``stream``; None shows nothing.

        A ``palette`` of a terminal allows for a bar. Without one, the line is overwritten with blanks, which every
        terminal understands.
        """
        self._stream = stream
        self._clock = clock
        self._palette = palette
        self._due = float("-inf")
        self._started = clock() if stream is not None else 0.0
        self._shown = 0
        self._done, self._total = 0.0, 0.0

    @property
    def is_shown(self) -> bool:
        """Whether anybody sees it, so that counting for it is worth the time."""
        return self._stream is not None

    def expect(self, total: float) -> None:
        """Tell how much there is to do, in any unit; 0 is not known."""
        self._total = total
        self._started = self._clock()

    def advance(self, amount: float = 1.0) -> None:
        """Tell that so much more is done, in the unit of :meth:`expect`."""
        self._done += amount

    def show_counts(self, counts: ReviewCounts) -> None:
        """Show the counts of a review run, unless the line was updated a moment ago."""
        self.update(f"{counts.admitted + counts.denied} reviewed, {counts.denied} denied")

    def update(self, line: str) -> None:
        """Show a short text and how much is done, unless the line was updated a moment ago."""
        if self._stream is None:
            return
        now = self._clock()
        if now < self._due:
            return
        self._due = now + INTERVAL_SECONDS
        elapsed = now - self._started
        text = f"{line}{self._share_text(elapsed)}"
        bar = self._bar() if elapsed >= _BAR_AFTER_SECONDS else ""
        if bar and self._palette is not None:
            room = self._palette.width - _BAR_COLUMNS - 2
            self._stream.write(f"\r{bar} {self._palette.cut(text, room)}{_ERASE_REST}")
        else:
            self._stream.write(f"\r{text.ljust(self._shown)}")
        self._stream.flush()
        self._shown = len(text) + (_BAR_COLUMNS + 1 if bar else 0)

    def clear(self) -> None:
        """Remove the line, until the next update."""
        if self._stream is None or not self._shown:
            return
        self._stream.write(f"\r{' ' * self._shown}\r")
        self._stream.flush()
        self._shown = 0

    def _share_text(self, elapsed: float) -> str:
        if not self._total:
            return ""
        share = min(self._done / self._total, 1.0)
        if share < _ESTIMATE_AFTER:
            return f", {share:.0%}"
        return f", {share:.0%}, {_clock_text(elapsed * (1 - share) / share)} left"

    def _bar(self) -> str:
        """A bar by rich, in the colours of the terminal; empty if there is no total, no terminal or no rich."""
        palette = self._palette
        if palette is None or not self._total:
            return ""
        try:
            from rich.console import Console  # noqa: PLC0415 - only for work that takes long, and where it is installed
            from rich.progress_bar import ProgressBar  # noqa: PLC0415 - as above
        except ModuleNotFoundError:
            return ""
        out = io.StringIO()
        console = Console(
            file=out,
            width=_BAR_COLUMNS,
            force_terminal=palette.colour,
            color_system="standard" if palette.colour else None,
            no_color=not palette.colour,
            legacy_windows=not palette.unicode,  # rich's word for bars of ASCII
        )
        bar = ProgressBar(
            total=self._total,
            completed=min(self._done, self._total),
            complete_style="green",  # rich's own looks like an error where there are 16 colours
            finished_style="green",
        )
        console.print(bar, end="")
        return out.getvalue().rstrip("\n")


def _clock_text(seconds: float) -> str:
    """Write a time as a clock does: ``0:07``, ``12:30``, ``1:00:00``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def progress_for(errors: TextIO | None, output: TextIO | None, *, streams: bool = True) -> Progress:
    """Show progress on standard error if that is a terminal.

    Args:
        errors: Standard error; None shows nothing.
        output: Standard output.
        streams: Whether results are written one by one, which shows the progress already if both are one terminal.
    """
    if errors is None or not errors.isatty():
        return Progress(None)
    if streams and output is not None and output.isatty():
        return Progress(None)
    dumb = os.environ.get("TERM") == "dumb"
    return Progress(errors, palette=None if dumb else palette_for(errors, colour=None))
