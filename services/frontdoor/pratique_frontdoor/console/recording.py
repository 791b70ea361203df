"""The decisions of a recording: what they add up to, a page of them, and one of them as the chain made it."""

from __future__ import annotations

import array
import bisect
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from pratique.apimachinery.errors import InputError
from pratique.cluster.files import load_cluster
from pratique_frontdoor.console.playground import DecidedReview
from pratique_frontdoor.console.recorded_lines import (
    MAX_ROWS,
    ListedDecision,
    RecordedLine,
    StepLatency,
    Totals,
    list_line,
    read_decision,
    read_line,
)

PAGE_DECISIONS = 50
"""How many decisions a page lists."""
MAX_LINE_BYTES = 64 * 1024 * 1024
"""The longest line that is read. The front door writes none as long, unless its limits are raised."""


class RecordingPage(msgspec.Struct, frozen=True):
    """A page of the list, and what all decisions add up to."""

    decisions: Sequence[ListedDecision]
    """Newest first."""
    page: int
    pages: int
    allowed: int
    denied: int
    warned: int
    unreadable: int
    """Lines that are no recorded decisions."""
    per_second: float | None
    """The mean rate from the first decision to the last; None if no time passed."""
    denials_by_policy: Sequence[tuple[str, int]]
    denials_by_namespace: Sequence[tuple[str, int]]
    latencies: Sequence[StepLatency]
    """The slowest steps first."""


class Recording:
    """A recording, which may still be written to. Of each line, only the place is kept in memory."""

    def __init__(self, path: Path) -> None:
        """Read a recording.

        Raises:
            InputError: the file holds lines, but no recorded decision.
            OSError: it cannot be read.
        """
        self._path = path
        self._identity = (0, 0)
        self._forget()
        self._cluster = load_cluster(None)
        with self._followed():
            pass
        if self._totals.unreadable and not self._offsets:
            raise InputError(f"{path}: this is no recording of `pratique record`: no line is a decision")

    def _forget(self) -> None:
        self._end = 0
        self._offsets = array.array("Q")
        self._line_numbers = array.array("Q")
        self._lines_read = 0
        self._totals = Totals()

    def page(self, number: int) -> RecordingPage:
        """Read a page of the list, from 1; a number beyond the last is the last.

        Raises:
            OSError: the file cannot be read.
        """
        with self._followed() as file:
            count, totals = len(self._offsets), self._totals
            pages = max(1, -(-count // PAGE_DECISIONS))
            number = min(max(number, 1), pages)
            newest = count - (number - 1) * PAGE_DECISIONS
            listed = range(newest, max(newest - PAGE_DECISIONS, 0), -1)
            return RecordingPage(
                decisions=[list_line(self._line(file, each), each) for each in listed],
                page=number,
                pages=pages,
                allowed=totals.allowed,
                denied=totals.denied,
                warned=totals.warned,
                unreadable=totals.unreadable,
                per_second=totals.per_second,
                denials_by_policy=totals.policies.most_common(MAX_ROWS),
                denials_by_namespace=totals.namespaces.most_common(MAX_ROWS),
                latencies=totals.latencies()[:MAX_ROWS],
            )

    def number_of(self, line: int) -> int:
        """Return the place of the decision in a line, counted from 1; 0 if that line holds none that has been read."""
        place = bisect.bisect_left(self._line_numbers, line)
        found = place < len(self._line_numbers) and self._line_numbers[place] == line
        return place + 1 if found else 0

    def decision(self, number: int) -> DecidedReview | None:
        """Read one decision by its place in the recording; None if there is none.

        Raises:
            InputError: its review, or its patch, cannot be read.
            OSError: the file cannot be read.
        """
        with self._followed() as file:
            if not 1 <= number <= len(self._offsets):
                return None
            line = self._line(file, number)
        return read_decision(line, self._cluster)

    def _line(self, file: BinaryIO, number: int) -> RecordedLine:
        file.seek(self._offsets[number - 1])
        return read_line(file.readline())

    def _followed(self) -> BinaryIO:
        """Open the file, and read what it has got since; a file that took its place is read anew."""
        file = self._path.open("rb")
        try:
            state = os.fstat(file.fileno())
            if (state.st_dev, state.st_ino) != self._identity or state.st_size < self._end:
                self._identity = (state.st_dev, state.st_ino)
                self._forget()
            for offset, text in self._new_lines(file):
                self._add(offset, text)
        except BaseException:
            file.close()
            raise
        return file

    def _new_lines(self, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
        """Yield the new complete lines with their places; of a line that is too long, only the beginning."""
        file.seek(self._end)
        while text := file.readline(MAX_LINE_BYTES):
            rest = text
            while rest and not rest.endswith(b"\n"):
                rest = file.readline(MAX_LINE_BYTES)
            if not rest:
                return  # its writer has not finished it
            offset, self._end = self._end, file.tell()
            yield offset, text

    def _add(self, offset: int, text: bytes) -> None:
        self._lines_read += 1
        if not text.strip():
            return
        try:
            line = read_line(text)
            self._totals.add(line, line.request)
        except (InputError, TypeError):  # TypeError: times with and without a zone
            self._totals.unreadable += 1
        else:
            self._offsets.append(offset)
            self._line_numbers.append(self._lines_read)
