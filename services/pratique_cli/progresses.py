"""Progress: how far a long run has come, for whoever waits at a terminal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from pratique_cli.outputs import Tally

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
