"""The steps of a decision, as lines for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frontdoor.decisions import StepOutcome
from pratique_cli.palettes import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frontdoor.decisions import Step
    from pratique_cli.outputs.changes import Change, ChangeTeller
    from pratique_cli.palettes import Palette

_LOOKS: dict[StepOutcome, tuple[str, tuple[str, ...]]] = {
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
_INDENT = " " * 4
_DETAIL = " " * 10


class StepWriter:
    """Writes steps; those that did not apply are folded into one line unless ``verbose``."""

    def __init__(self, palette: Palette, *, verbose: bool) -> None:
        """Write for ``palette``."""
        self._palette = palette
        self._verbose = verbose

    def lines(self, steps: Sequence[Step], teller: ChangeTeller) -> Iterator[str]:
        """Write the steps in the order in which they happened; ``teller`` follows the object through them."""
        shown = [step for step in steps if self._verbose or step.outcome is not StepOutcome.SKIPPED]
        width = max((len(step_name(step)) for step in shown), default=0)
        for step in shown:
            yield self._line(step, width)
            yield from self._details(step, teller)
        folded = [step for step in steps if step not in shown]
        if folded:
            yield self._folded(folded)

    def _line(self, step: Step, width: int) -> str:
        mark, styles = _LOOKS[step.outcome]
        name = self._palette.mark(mark)
        phase = self._palette.paint(f"{step.phase.value:<8}", "dim")
        told = self._palette.paint(step.outcome.value, *styles)
        line = f"{_INDENT}{self._palette.paint(name, *styles)} {phase}  {step_name(step):<{width}}  {told}"
        return line + self._palette.paint(self._remarks(step), "dim")

    def _remarks(self, step: Step) -> str:
        if step.outcome is StepOutcome.SKIPPED:
            return f"  {printable(step.reason)}"
        remarks = ["reinvoked"] if step.round else []
        if self._verbose:
            remarks.append(f"{step.duration_seconds * 1000:.1f} ms")
            remarks += [step.endpoint] if step.endpoint else []
        return f"  ({', '.join(map(printable, remarks))})" if remarks else ""

    def _details(self, step: Step, teller: ChangeTeller) -> Iterator[str]:
        if step.reason and step.outcome is not StepOutcome.SKIPPED:
            styles = _LOOKS[step.outcome][1]
            yield _DETAIL + self._palette.paint(printable(step.reason), *styles)
        secret = teller.is_secret
        for change in teller.tell(step.patch):
            yield self.change(change, secret=secret)

    def change(self, change: Change, *, secret: bool) -> str:
        """Write one change; of a Secret without its values."""
        values = "" if secret else self._values(change)
        room = self._palette.width - len(_DETAIL) - 2
        path = printable(change.path)
        value = self._palette.cut(printable(values), max(room - len(path), 24))
        return f"{_DETAIL}{self._palette.paint(change.sign, _SIGNS[change.sign])} {path}{value}"

    def _values(self, change: Change) -> str:
        if change.before is not None and change.after is not None:
            half = max((self._palette.width - len(_DETAIL) - len(change.path)) // 2, 12)
            return f": {self._palette.cut(change.before, half)} {self._palette.mark('→')} {change.after}"
        return f": {change.before if change.after is None else change.after}"

    def _folded(self, steps: Sequence[Step]) -> str:
        names = ", ".join(dict.fromkeys(step_name(step) for step in steps))
        head, tail = f"{self._palette.mark('·')} {len(steps)} skipped: ", " (-v says why)"
        text = head + self._palette.cut(names, self._palette.width - len(_INDENT + head + tail)) + tail
        return _INDENT + self._palette.paint(text, "dim")


def step_name(step: Step) -> str:
    """Name a step: its plugin, or its controller with the webhook or policy and where that came from."""
    name = step.controller if step.name in ("", step.controller) else f"{step.controller} {step.name}"
    if step.configuration:
        name += f" ({step.configuration})"
    return printable(name)
