"""``-o text``: decisions for a person, on a terminal or in a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.json_values import member
from pratique.reviews import Operation
from pratique_cli.outputs.changes import ChangeTeller
from pratique_cli.outputs.differences import difference
from pratique_cli.outputs.step_texts import StepWriter
from pratique_cli.palettes import printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from frontdoor.decisions import Decision
    from pratique.reviews import Review
    from pratique.statuses import Status
    from pratique_cli.outputs import Reviewed, Tally
    from pratique_cli.palettes import Palette

_DIFFERENCE_STYLES = {"+": "green", "-": "red", "@": "cyan"}


class Texts:
    """Writes each decision as a headline, its steps, its warnings and what changed."""

    def __init__(self, stream: TextIO, palette: Palette, *, verbose: bool = False) -> None:
        """Write to ``stream``; ``verbose`` shows skipped steps one by one, times and endpoints."""
        self._stream = stream
        self._palette = palette
        self._steps = StepWriter(palette, verbose=verbose)
        self._verbose = verbose

    def write(self, reviewed: Reviewed) -> None:
        """Write one decision and an empty line."""
        received = reviewed.review.object_document
        lines = [self._headline(reviewed), *self._refusal(reviewed.decision)]
        lines += self._steps.lines(reviewed.decision.steps, ChangeTeller(received.data))
        lines += self._warnings(reviewed.decision)
        if reviewed.decision.patch and (reviewed.decision.allowed or self._verbose):
            lines += self._difference(reviewed)
        self._stream.write("\n".join([*lines, "", ""]))
        self._stream.flush()

    def _headline(self, reviewed: Reviewed) -> str:
        paint, mark = self._palette.paint, self._palette.mark
        if reviewed.decision.allowed:
            verdict = paint(f"{mark('✓')} admitted", "green", "bold")
        else:
            verdict = paint(f"{mark('✗')} denied  ", "red", "bold")
        subject = paint(printable(_subject(reviewed.review)), "bold")
        code = paint(_code(reviewed.decision.status), "red")
        place = paint(f"({printable(reviewed.place)})", "dim")
        return "  ".join(part for part in (verdict, subject, code, place) if part)

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

    def _difference(self, reviewed: Reviewed) -> Iterator[str]:
        yield ""
        first = True
        for line in difference(reviewed.review.object, reviewed.decision.object_document.data):
            if not line.startswith("@@"):
                yield "    " + self._palette.paint(printable(line), *filter(None, [_style(line)]))
            elif not first:
                yield "    " + self._palette.paint(self._palette.mark("…"), "dim")
            first = False

    def finish(self, tally: Tally) -> None:
        """Write how many came to what."""
        paint = self._palette.paint
        parts = [f"{tally.admitted + tally.denied} reviewed", f"{tally.admitted} admitted"]
        parts.append(paint(f"{tally.denied} denied", *(("red", "bold") if tally.denied else ())))
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


def _subject(review: Review) -> str:
    """Name what is reviewed: ``Deployment shop/web``, ``DELETE Pod shop/web``, ``Pod/status shop/web``."""
    kind = review.kind.kind + (f"/{review.subresource}" if review.subresource else "")
    name = review.name or member(review.object, "metadata", "name") or _generated(review)
    operation = "" if review.operation is Operation.CREATE else f"{review.operation.value} "
    # A Namespace is asked for in itself, which is no place to show.
    placed = review.namespace and review.resource.resource != "namespaces"
    return f"{operation}{kind} {review.namespace}/{name}" if placed else f"{operation}{kind} {name}"


def _generated(review: Review) -> str:
    prefix = member(review.object, "metadata", "generateName")
    return f"{prefix}…" if prefix else "without a name"
