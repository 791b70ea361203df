"""``-o text``: results for a person, on a terminal or in a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.source_documents import shown
from pratique_cli.outputs.changes import ChangeTeller, path_text
from pratique_cli.outputs.step_texts import StepWriter
from pratique_cli.palettes import printable
from pratique_cli.suites.outputs.coverage_tables import coverage_lines
from pratique_cli.suites.results import Ending

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from pratique.errors import InputError
    from pratique_cli.palettes import Palette
    from pratique_cli.suites.coverages import Coverage
    from pratique_cli.suites.results import Mismatch, Result, Score

_VERDICTS = {
    Ending.PASSED: ("✓ passed", ("green", "bold")),
    Ending.FAILED: ("✗ failed", ("red", "bold")),
    Ending.UNREADABLE: ("! unreadable", ("red", "bold")),
    Ending.UNDECIDED: ("! undecided", ("red", "bold")),
}
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


class Texts:
    """Writes a line for each case, below it what is not as expected, and at the end how far the policies were used."""

    def __init__(self, stream: TextIO, palette: Palette, *, verbose: bool = False) -> None:
        """Write to ``stream``; ``verbose`` shows the steps of every case."""
        self._stream = stream
        self._palette = palette
        self._steps = StepWriter(palette, verbose=verbose)
        self._verbose = verbose

    def write(self, result: Result) -> None:
        """Write one case; why one could not be run, standard error tells."""
        lines = [self._headline(result)]
        if self._verbose and result.observed is not None:
            received = ChangeTeller(result.observed.review.object_document.data)
            lines += self._steps.lines(result.observed.decision.steps, received)
        for mismatch in result.mismatches:
            lines += self._mismatch(result, mismatch)
        self._stream.write("\n".join([*lines, ""]))
        self._stream.flush()

    def _headline(self, result: Result) -> str:
        paint, case = self._palette.paint, result.case
        mark, styles = _VERDICTS[result.ending]
        verdict = paint(self._palette.mark(mark[0]) + mark[1:], *styles)
        place = paint(f"({printable(shown(case.document.file))}:{case.line})", "dim")
        return f"{verdict}  {paint(printable(case.full_name), 'bold')}  {place}"

    def _mismatch(self, result: Result, mismatch: Mismatch) -> Iterator[str]:
        place = f"{shown(result.case.document.file)}:{result.position(mismatch).line}"
        member = path_text(mismatch.path[len(result.case.path) :])
        yield f"    {self._palette.mark('→')} {printable(place)}  {printable(member)}"
        yield f"        expected  {self._palette.paint(printable(mismatch.expected), 'green')}"
        yield f"        got       {self._palette.paint(printable(mismatch.got), 'red')}"
        for line in mismatch.difference:
            if line.startswith("@@"):
                yield "        " + self._palette.paint(self._palette.mark("…"), "dim")
            else:
                colour = _COLOURS.get(line[:1])
                yield "        " + self._palette.paint(printable(line), *filter(None, [colour]))

    def miss(self, error: InputError) -> None:
        """Write nothing: standard error tells it."""

    def finish(self, score: Score, coverage: Coverage | None) -> None:
        """Write how far the policies were used, and how many cases came to what."""
        lines = []
        if coverage is not None and coverage.entries:
            lines = ["", *coverage_lines(coverage, self._palette), ""]
        self._stream.write("\n".join([*lines, self._summary(score), ""]))
        self._stream.flush()

    def _summary(self, score: Score) -> str:
        paint = self._palette.paint
        parts = [f"{score.run} run", f"{score.passed} passed"]
        parts.append(paint(f"{score.failed} failed", *(("red", "bold") if score.failed else ())))
        for count, word in (
            (score.undecided, "undecided"),
            (score.unreadable, "unreadable"),
            (score.left, "not run"),
        ):
            if count:
                parts.append(paint(f"{count} {word}", "red", "bold"))
        return ", ".join(parts)
