"""``-o text``: decisions for a person, on a terminal or in a log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from pratique.admission.controllers import Phase
from pratique.admission.results import OutcomeStatus as StepOutcome
from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.patches import apply_patch
from pratique.apimachinery.source_documents import display_path
from pratique.apimachinery.statuses import Status
from pratique_cli.outputs import ReviewCounts, ReviewedDocument, UndecidedDocument
from pratique_cli.outputs.changes import ChangeTracker, FieldChange, difference, subject
from pratique_cli.reviews.expansions import Expansion, places, template_position
from pratique_cli.terminal import Palette, printable
from pratique_frontdoor.chain.decisions import OBJECT_VALIDATION, Decision, Step
from pratique_frontdoor.chain.message_fields import causes
from pratique_frontdoor.recording.redaction import concerns_secret

_OUTCOME_STYLES: dict[StepOutcome, tuple[str, tuple[str, ...]]] = {
    StepOutcome.ALLOWED: ("✓", ("green",)),
    StepOutcome.MUTATED: ("~", ("cyan",)),
    StepOutcome.UNCHANGED: ("·", ("dim",)),
    StepOutcome.DENIED: ("✗", ("red", "bold")),
    StepOutcome.WARNED: ("!", ("yellow",)),
    StepOutcome.SKIPPED: ("·", ("dim",)),
    StepOutcome.FAILED: ("✗", ("red", "bold")),
    StepOutcome.FAILED_OPEN: ("!", ("yellow",)),
}
_SIGNS = {"+": "green", "-": "red", "~": "cyan"}
INDENT = " " * 4
DETAIL = " " * 10


class StepWriter:
    """Writes steps; skipped ones are folded into one line unless ``verbose``."""

    def __init__(self, palette: Palette, *, verbose: bool) -> None:
        """Write with the colours and marks of ``palette``."""
        self._palette = palette
        self._verbose = verbose

    def lines(self, steps: Sequence[Step], tracker: ChangeTracker, *, secret: bool) -> Iterator[str]:
        """Write the steps in order; ``tracker`` follows the object through them, and ``secret`` hides its values."""
        shown = [step for step in steps if self._verbose or not is_quiet(step)]
        width = max((len(step_name(step)) for step in shown), default=0)
        for step in steps:
            if step in shown:
                yield self._line(step, width)
                yield from self._details(step, tracker, secret=secret)
            else:
                tracker.apply(step.patch)
        folded = [step for step in steps if step.outcome is StepOutcome.SKIPPED and step not in shown]
        if folded:
            yield self._folded(folded)

    def _line(self, step: Step, width: int) -> str:
        mark, styles = _OUTCOME_STYLES[step.outcome]
        name = self._palette.mark(mark)
        phase = self._palette.paint(f"{step.phase.value:<8}", "dim")
        outcome = self._palette.paint(step.outcome.value, *styles)
        line = f"{INDENT}{self._palette.paint(name, *styles)} {phase}  {step_name(step):<{width}}  {outcome}"
        return line + self._palette.paint(self._remarks(step), "dim")

    def _remarks(self, step: Step) -> str:
        if step.outcome is StepOutcome.SKIPPED:
            return f"  {printable(step.reason)}"
        remarks = ["reinvoked"] if step.round else []
        if self._verbose:
            remarks.append(f"{step.duration_seconds * 1000:.1f} ms")
            remarks += [step.endpoint] if step.endpoint else []
        return f"  ({', '.join(map(printable, remarks))})" if remarks else ""

    def _details(self, step: Step, tracker: ChangeTracker, *, secret: bool) -> Iterator[str]:
        if step.reason and step.outcome is not StepOutcome.SKIPPED:
            styles = _OUTCOME_STYLES[step.outcome][1]
            yield DETAIL + self._palette.paint(printable(step.reason), *styles)
        for change in tracker.apply(step.patch):
            yield self.change(change, secret=secret)

    def change(self, change: FieldChange, *, secret: bool) -> str:
        """Write one change; ``secret`` hides the values."""
        values = "" if secret else self._values(change)
        room = self._palette.width - len(DETAIL) - 2
        path = printable(change.path)
        value = self._palette.cut(printable(values), max(room - len(path), 24))
        return f"{DETAIL}{self._palette.paint(change.sign, _SIGNS[change.sign])} {path}{value}"

    def _values(self, change: FieldChange) -> str:
        if change.before is not None and change.after is not None:
            half = max((self._palette.width - len(DETAIL) - len(change.path)) // 2, 12)
            return f": {self._palette.cut(change.before, half)} {self._palette.mark('→')} {change.after}"
        return f": {change.before if change.after is None else change.after}"

    def _folded(self, steps: Sequence[Step]) -> str:
        names = ", ".join(dict.fromkeys(step_name(step) for step in steps))
        head, tail = f"{self._palette.mark('·')} {len(steps)} skipped: ", " (-vv says why)"
        text = head + self._palette.cut(names, self._palette.width - len(INDENT + head + tail)) + tail
        return INDENT + self._palette.paint(text, "dim")


def is_quiet(step: Step) -> bool:
    """Whether a step goes without saying: it does not apply, or is what every object of the kind goes through."""
    return step.outcome is StepOutcome.SKIPPED or (
        step.controller == OBJECT_VALIDATION and step.outcome is not StepOutcome.DENIED
    )


def step_name(step: Step) -> str:
    """Name a step: its controller, and possibly its webhook or policy with its configuration or binding."""
    name = step.controller if step.name in ("", step.controller) else f"{step.controller} {step.name}"
    if step.configuration:
        name += f" ({step.configuration})"
    return printable(name)


def _admission_change(received: JSON, decision: Decision) -> tuple[JSON, JSON]:
    """The object before and after admission: with the defaults it gets first, without what its strategy fills in."""
    after = received
    before = received
    for index, step in enumerate(decision.steps):
        if step.controller == OBJECT_VALIDATION and step.phase is Phase.VALIDATE:
            break
        after = apply_patch(after, step.patch) if step.patch else after
        if index == 0 and step.controller == OBJECT_VALIDATION:
            before = after
    return before, after


_POD_INDENT = " " * 4
_DIFFERENCE_STYLES = {"+": "green", "-": "red", "@": "cyan"}


class TextOutput:
    """Writes each decision as a headline, its steps, its warnings and a diff."""

    def __init__(
        self,
        stream: TextIO,
        palette: Palette,
        *,
        compact: bool = False,
        verbose: bool = False,
        blame: bool = False,
        quiet: bool = False,
    ) -> None:
        """Write to ``stream``.

        Args:
            stream: A text stream.
            palette: Its colours, marks and width.
            compact: Show nothing below the headline but the reasons of denials and warnings.
            verbose: Show each skipped step, times and endpoints.
            blame: Show which step changed what.
            quiet: Leave out what is admitted without a warning, and the counts.
        """
        self._compact = compact
        self._quiet = quiet
        self._stream = stream
        self._palette = palette
        self._steps = StepWriter(palette, verbose=verbose)
        self._verbose = verbose
        self._blame = blame

    def write(self, reviewed: ReviewedDocument) -> None:
        """Write one decision, and an empty line unless it is compact."""
        if self._quiet and not _needs_attention(reviewed.decision):
            return
        if self._compact:
            self._stream.write("\n".join([*self._compact_lines(reviewed), ""]))
            self._stream.flush()
            return
        lines = [self._headline(reviewed.review, reviewed.decision, reviewed.place)]
        lines += self._body(reviewed.review, reviewed.decision)
        for expansion in reviewed.expanded:
            lines += (f"{_POD_INDENT}{line}" if line else "" for line in self._pod(reviewed, expansion))
        self._stream.write("\n".join([*lines, "", ""]))
        self._stream.flush()

    def _compact_lines(self, reviewed: ReviewedDocument) -> Iterator[str]:
        yield self._headline(reviewed.review, reviewed.decision, reviewed.place)
        yield from self._reasons(reviewed.review, reviewed.decision)
        for expansion in reviewed.expanded:
            review, decision = expansion.review, expansion.decision
            if _needs_attention(decision) or _has_shadow(decision):
                yield _POD_INDENT + self._headline(review, decision, _template_place(reviewed, expansion))
                yield from (_POD_INDENT + line for line in self._reasons(review, decision))

    def _reasons(self, review: Review, decision: Decision) -> Iterator[str]:
        """Write each cause of a denial with the step that denied, then the warnings."""
        status = decision.status
        for cause in causes(decision, status) if status is not None else ():
            source = "" if cause.step is None else f"{step_name(decision.steps[cause.step])}: "
            yield INDENT + self._palette.paint(f"{source}{printable(cause.text)}", "red")
        yield from self._blame_lines(review, decision)
        yield from self._warnings(decision)
        for step in decision.steps:
            if step.shadow is not None and step.shadow.differs:
                yield INDENT + self._palette.paint(f"{step_name(step)}: {printable(step.reason)}", "dim")

    def _body(self, review: Review, decision: Decision) -> Iterator[str]:
        yield from self._refusal(decision)
        secret = concerns_secret(review)
        tracker = ChangeTracker(review.object_document.data)
        yield from self._steps.lines(decision.steps, tracker, secret=secret)
        yield from self._blame_lines(review, decision)
        yield from self._warnings(decision)
        if decision.patch and (decision.allowed or self._verbose):
            before, after = review.object, decision.object_document.data
            if not self._verbose:
                before, after = _admission_change(before, decision)
            if before != after:
                yield from self._difference(before, after, secret=secret)

    def _blame_lines(self, review: Review, decision: Decision) -> Iterator[str]:
        if self._blame:
            from pratique_cli.outputs.blame_texts import blame_lines  # noqa: PLC0415 - only with --blame

            yield from blame_lines(review, decision, self._steps, self._palette)

    def _pod(self, reviewed: ReviewedDocument, expansion: Expansion) -> Iterator[str]:
        """Write the decision on a Pod of the workload, in full if it is denied or with ``verbose``."""
        document, decision = reviewed.document, expansion.decision
        yield self._headline(expansion.review, decision, _template_place(reviewed, expansion))
        if decision.allowed and not self._verbose:
            yield from self._warnings(decision)
            return
        yield from self._body(expansion.review, decision)
        for place in places(reviewed, expansion):
            where = f"{display_path(document.file)}:{place.position.line}"
            yield f"    {self._palette.mark('→')} {printable(f'{where}  {place.field}')}"

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
        """Write the reason of a denial, unless a step gives it."""
        status = decision.status
        if status is None or any(step.reason == status.message for step in decision.steps):
            return []
        return [f"    {self._palette.paint(printable(status.message), 'red')}"]

    def _warnings(self, decision: Decision) -> list[str]:
        return [
            self._palette.paint(f"    {self._palette.mark('!')} warning: {printable(text)}", "yellow")
            for text in decision.warnings
        ]

    def _difference(self, before: JSON, after: JSON, *, secret: bool) -> Iterator[str]:
        yield ""
        first = True
        for line in difference(before, after, in_secret=secret):
            if not line.startswith("@@"):
                yield "    " + self._palette.paint(printable(line), *filter(None, [_style(line)]))
            elif not first:
                yield "    " + self._palette.paint(self._palette.mark("…"), "dim")
            first = False

    def write_problem(self, problem: UndecidedDocument) -> None:
        """Write nothing: standard error reports it."""

    def finish(self, counts: ReviewCounts) -> None:
        """Write the counts."""
        if not self._quiet:
            self._stream.write(summary(counts, self._palette))
        self._stream.flush()


def summary(counts: ReviewCounts, palette: Palette) -> str:
    """Write the counts of a run as a line."""
    paint = palette.paint
    parts = [f"{counts.admitted + counts.denied} reviewed", f"{counts.admitted} admitted"]
    parts.append(paint(f"{counts.denied} denied", *(("red", "bold") if counts.denied else ())))
    if counts.pods:
        pods = f"{counts.pods} Pods" if counts.pods > 1 else "1 Pod"
        styles = ("red", "bold") if counts.pods_denied else ()
        parts.append(paint(f"{counts.pods_denied} denied of the {pods} they would make", *styles))
    if counts.warned:
        parts.append(paint(f"{counts.warned} with warnings", "yellow"))
    if counts.undecided:
        parts.append(paint(f"{counts.undecided} undecided", "red", "bold"))
    if counts.unreadable:
        parts.append(paint(f"{counts.unreadable} unreadable", "red", "bold"))
    return ", ".join(parts) + "\n"


def _needs_attention(decision: Decision) -> bool:
    """Whether something is denied or warned of."""
    return not decision.allowed or bool(decision.warnings) or any(map(_needs_attention, decision.expanded))


def _has_shadow(decision: Decision) -> bool:
    """Whether something in shadow would have made a difference."""
    return any(step.shadow is not None and step.shadow.differs for step in decision.steps)


def _template_place(reviewed: ReviewedDocument, expansion: Expansion) -> str:
    """The location of a workload's template, for people: file and line."""
    return f"{display_path(reviewed.document.file)}:{template_position(reviewed, expansion).line}"


def _style(line: str) -> str | None:
    return _DIFFERENCE_STYLES.get(line[:1])


def _code(status: Status | None) -> str:
    return f"{status.code} {status.reason}".strip() if status else ""
