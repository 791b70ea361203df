"""``-o table``: a row for each document, in columns."""

from __future__ import annotations

from typing import TextIO

from pratique_cli.outputs import ReviewCounts, ReviewedDocument, UndecidedDocument
from pratique_cli.outputs.changes import subject
from pratique_cli.outputs.columns import Column, Row, table_text
from pratique_cli.outputs.findings import FindingLevel, findings
from pratique_cli.outputs.texts import summary
from pratique_cli.terminal import Palette
from pratique_frontdoor.chain.decisions import Decision

_COLUMNS = (
    Column("DECISION"),
    Column("OBJECT", keep=False),
    Column("PLACE", keep=False),
    Column("REASON", keep=False),
)
_STYLES = {"admitted": ("green",), "denied": ("red", "bold"), "warned": ("yellow",)}


class TableOutput:
    """Keeps a row for each document, and writes them at the end, when the width of each column is known."""

    def __init__(self, stream: TextIO, palette: Palette, *, quiet: bool = False) -> None:
        """Write to ``stream``; ``quiet`` leaves out what is admitted without a warning, and the summary."""
        self._stream = stream
        self._palette = palette
        self._quiet = quiet
        self._rows: list[Row] = []

    def write(self, reviewed: ReviewedDocument) -> None:
        """Keep the row of one document."""
        verdict = _verdict(reviewed.decision)
        if self._quiet and verdict == "admitted":
            return
        cells = (verdict, subject(reviewed.review), reviewed.place, _reason(reviewed))
        self._rows.append(Row(cells, _STYLES[verdict]))

    def write_problem(self, problem: UndecidedDocument) -> None:
        """Write nothing: standard error reports it."""

    def finish(self, counts: ReviewCounts) -> None:
        """Write all rows, and the summary."""
        if self._rows:
            self._stream.write(table_text(_COLUMNS, self._rows, self._palette))
        if not self._quiet:
            self._stream.write(summary(counts, self._palette))
        self._stream.flush()


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
