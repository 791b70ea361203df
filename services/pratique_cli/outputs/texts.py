"""``-o text``: decisions for a person, on a terminal or in a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.source_documents import shown
from pratique_cli.expansion_places import places, template_position
from pratique_cli.outputs.changes import ChangeTeller
from pratique_cli.outputs.differences import difference
from pratique_cli.outputs.step_texts import StepWriter
from pratique_cli.outputs.subjects import subject
from pratique_cli.palettes import printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from frontdoor.decisions import Decision
    from pratique.reviews import Review
    from pratique.statuses import Status
    from pratique_cli.expansions import Expansion
    from pratique_cli.outputs import Missed, Reviewed, Tally
    from pratique_cli.palettes import Palette

_DEEPER = " " * 4
_DIFFERENCE_STYLES = {"+": "green", "-": "red", "@": "cyan"}


class Texts:
    """Writes each decision as a headline, its steps, its warnings and what changed."""

    def __init__(
        self, stream: TextIO, palette: Palette, *, verbose: bool = False, blame: bool = False
    ) -> None:
        """Write to ``stream``.

        ``verbose`` shows skipped steps one by one, times and endpoints; ``blame`` who changed what.
        """
        self._stream = stream
        self._palette = palette
        self._steps = StepWriter(palette, verbose=verbose)
        self._verbose = verbose
        self._blame = blame

    def write(self, reviewed: Reviewed) -> None:
        """Write one decision and an empty line."""
        lines = [self._headline(reviewed.review, reviewed.decision, reviewed.place)]
        lines += self._body(reviewed.review, reviewed.decision)
        for expansion in reviewed.expanded:
            lines += (f"{_DEEPER}{line}" if line else "" for line in self._pod(reviewed, expansion))
        self._stream.write("\n".join([*lines, "", ""]))
        self._stream.flush()

    def _body(self, review: Review, decision: Decision) -> Iterator[str]:
        yield from self._refusal(decision)
        yield from self._steps.lines(decision.steps, ChangeTeller(review.object_document.data))
        if self._blame:
            from pratique_cli.outputs.blame_texts import blame_lines  # noqa: PLC0415 - only for those who want to know

            yield from blame_lines(review, decision, self._steps, self._palette)
        yield from self._warnings(decision)
        if decision.patch and (decision.allowed or self._verbose):
            yield from self._difference(review, decision)

    def _pod(self, reviewed: Reviewed, expansion: Expansion) -> Iterator[str]:
        """Tell of a Pod that the workload would make: all of it where it is denied, or where all is asked for."""
        document, decision = reviewed.document, expansion.decision
        place = f"{shown(document.file)}:{template_position(reviewed, expansion).line}"
        yield self._headline(expansion.review, decision, place)
        if decision.allowed and not self._verbose:
            yield from self._warnings(decision)
            return
        yield from self._body(expansion.review, decision)
        for each in places(reviewed, expansion):
            where = f"{shown(document.file)}:{each.position.line}"
            yield f"    {self._palette.mark('→')} {printable(f'{where}  {each.field}')}"

    def _headline(self, review: Review, decision: Decision, where: str) -> str:
        paint, mark = self._palette.paint, self._palette.mark
        if decision.allowed:
            verdict = paint(f"{mark('✓')} admitted", "green", "bold")
        else:
            verdict = paint(f"{mark('✗')} denied  ", "red", "bold")
        named = paint(printable(subject(review)), "bold")
        code = paint(_code(decision.status), "red")
        place = paint(f"({printable(where)})", "dim")
        return "  ".join(part for part in (verdict, named, code, place) if part)

    def _refusal(self, decision: Decision) -> list[str]:
        """Say why, unless a step is going to say it."""
        status = decision.status
        if status is None or any(step.reason == status.message for step in decision.steps):
            return []
        return [f"    {self._palette.paint(printable(status.message), 'red')}"]

    def _warnings(self, decision: Decision) -> list[str]:
        return [
            self._palette.paint(f"    {self._palette.mark('!')} warning: {printable(text)}", "yellow")
            for text in decision.warnings
        ]

    def _difference(self, review: Review, decision: Decision) -> Iterator[str]:
        yield ""
        first = True
        for line in difference(review.object, decision.object_document.data):
            if not line.startswith("@@"):
                yield "    " + self._palette.paint(printable(line), *filter(None, [_style(line)]))
            elif not first:
                yield "    " + self._palette.paint(self._palette.mark("…"), "dim")
            first = False

    def miss(self, missed: Missed) -> None:
        """Write nothing: standard error tells it."""

    def finish(self, tally: Tally) -> None:
        """Write how many came to what."""
        paint = self._palette.paint
        parts = [f"{tally.admitted + tally.denied} reviewed", f"{tally.admitted} admitted"]
        parts.append(paint(f"{tally.denied} denied", *(("red", "bold") if tally.denied else ())))
        if tally.pods_denied:
            parts.append(paint(f"{tally.pods_denied} denied of the Pods they would make", "red", "bold"))
        if tally.undecided:
            parts.append(paint(f"{tally.undecided} undecided", "red", "bold"))
        if tally.unreadable:
            parts.append(paint(f"{tally.unreadable} unreadable", "red", "bold"))
        self._stream.write(", ".join(parts) + "\n")
        self._stream.flush()


def _style(line: str) -> str | None:
    return _DIFFERENCE_STYLES.get(line[:1])


def _code(status: Status | None) -> str:
    return f"{status.code} {status.reason}".strip() if status else ""
