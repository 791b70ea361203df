"""``-o table``: a row for each document, in columns."""

from __future__ import annotations

from typing import TextIO

from pratique_cli.outputs import ReviewCounts, ReviewedDocument, UndecidedDocument
from pratique_cli.outputs.changes import subject
from pratique_cli.outputs.findings import FindingLevel, findings
from pratique_cli.outputs.texts import summary
from pratique_cli.terminal import Palette, printable
from pratique_frontdoor.chain.decisions import Decision

_COLUMNS = ("DECISION", "OBJECT", "PLACE", "REASON")
_STYLES = {"admitted": ("green",), "denied": ("red", "bold"), "warned": ("yellow",)}


class TableOutput:
    """Keeps a row for each document, and writes them at the end, when the width of each column is known."""

    def __init__(self, stream: TextIO, palette: Palette, *, quiet: bool = False) -> None:
        """Write to ``stream``; ``quiet`` leaves out what is admitted without a warning, and the summary."""
        self._stream = stream
        self._palette = palette
        self._quiet = quiet
        self._rows: list[tuple[str, str, str, str]] = []

    def write(self, reviewed: ReviewedDocument) -> None:
        """Keep the row of one document."""
        verdict = _verdict(reviewed.decision)
        if self._quiet and verdict == "admitted":
            return
        self._rows.append((verdict, subject(reviewed.review), reviewed.place, _reason(reviewed)))

    def write_problem(self, problem: UndecidedDocument) -> None:
        """Write nothing: standard error reports it."""

    def finish(self, counts: ReviewCounts) -> None:
        """Write all rows, and the summary."""
        rows = [tuple(map(printable, row)) for row in self._rows]
        if rows:
            widths = [max(map(len, column)) for column in zip(_COLUMNS, *rows, strict=True)]
            self._stream.write(self._line(_COLUMNS, widths, ("bold",)))
            self._stream.writelines(self._line(row, widths, _STYLES[row[0]]) for row in rows)
        if not self._quiet:
            self._stream.write(summary(counts, self._palette))
        self._stream.flush()

    def _line(self, row: tuple[str, ...], widths: list[int], styles: tuple[str, ...]) -> str:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        head = self._palette.paint(cells[0], *styles)
        return "  ".join([head, *cells[1:-1], self._fitted(row[-1], widths)]).rstrip() + "\n"

    def _fitted(self, reason: str, widths: list[int]) -> str:
        """Cut a reason to the width of a terminal; a file or a pipe gets all of it."""
        if not self._stream.isatty():
            return reason
        room = self._palette.width - sum(widths[:-1]) - 2 * (len(widths) - 1)
        return self._palette.cut(reason, max(room, 24))


def _verdict(decision: Decision) -> str:
    decisions = (decision, *decision.expanded)
    if not all(each.allowed for each in decisions):
        return "denied"
    return "warned" if any(each.warnings for each in decisions) else "admitted"


def _reason(reviewed: ReviewedDocument) -> str:
    """The first cause of a denial, else the first warning, and how many more there are."""
    found = sorted(findings(reviewed), key=lambda finding: finding.level is not FindingLevel.ERROR)
    if not found:
        return ""
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return found[0].text + more
