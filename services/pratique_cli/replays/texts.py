"""``pratique replay -o text``: what differs, for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.json_values import JSON, encode
from pratique.source_documents import shown
from pratique_cli.palettes import printable
from pratique_cli.replays.comparisons import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TextIO

    from pratique_cli.palettes import Palette
    from pratique_cli.replays.comparisons import Difference
    from pratique_cli.replays.recorded import Recorded
    from pratique_cli.replays.reports import Example, Report, Sum

_WORDS = {
    Kind.DENIED: "admitted before, denied now",
    Kind.ADMITTED: "denied before, admitted now",
    Kind.REASON: "denied as before, for another reason",
    Kind.OBJECT: "admitted as another object",
    Kind.WARNINGS: "warned of something else",
    Kind.AUDIT: "audited otherwise",
}
_LOOKS = {
    Kind.DENIED: ("✗", "red"),
    Kind.ADMITTED: ("✓", "green"),
    Kind.REASON: ("✗", "yellow"),
    Kind.OBJECT: ("~", "cyan"),
    Kind.WARNINGS: ("!", "yellow"),
    Kind.AUDIT: ("·", "dim"),
}
_NOT_COMPARED = {
    "omitted": "recorded without objects",
    "skipped": "decided by webhooks, which are left out",
    "unreadable": "unreadable",
    "undecided": "undecided",
}


class ReplayTexts:
    """Writes the differences by who made them, with examples, and how many reviews came to what."""

    def __init__(self, stream: TextIO, palette: Palette) -> None:
        """Write to ``stream``."""
        self._stream = stream
        self._palette = palette

    def write(self, recorded: Recorded, differences: Sequence[Difference]) -> None:
        """Write nothing yet: what belongs together is told together."""

    def finish(self, report: Report) -> None:
        """Write all of it."""
        for rule, sums in report.groups():
            lines = [
                self._palette.paint(
                    printable(str(rule) if rule.controller else "nobody in particular"), "bold"
                )
            ]
            for kind, entry in sums:
                lines += self._sum(kind, entry)
            self._stream.write("\n".join([*lines, "", ""]))
        self._stream.write(", ".join(_totals(report)) + "\n")
        self._stream.flush()

    def _sum(self, kind: Kind, entry: Sum) -> Iterator[str]:
        mark, style = _LOOKS[kind]
        uncertain = f", {entry.uncertain} uncertain" if entry.uncertain else ""
        yield f"  {self._palette.paint(f'{self._palette.mark(mark)} {entry.count} {_WORDS[kind]}', style)}{uncertain}"
        for example in entry.examples:
            yield from self._example(example)
        if entry.count > len(entry.examples):
            yield f"      {self._palette.mark('…')} and {entry.count - len(entry.examples)} more"

    def _example(self, example: Example) -> Iterator[str]:
        place = self._palette.paint(f"({printable(shown(example.file))}:{example.line})", "dim")
        yield f"      {printable(example.subject)}  {place}"
        difference = example.difference
        for sign, told in _changes(difference.before, difference.after):
            yield self._palette.cut(f"        {sign} {printable(told)}", self._palette.width)
        for reason in difference.uncertain:
            yield self._palette.paint(
                f"        {self._palette.mark('?')} uncertain: {printable(reason)}", "yellow"
            )


def _changes(before: JSON, after: JSON) -> Iterator[tuple[str, str]]:
    """Tell values field by field, and texts and lists one by one: ``-`` was, ``+`` is."""
    if isinstance(before, dict) and isinstance(after, dict):
        for field in before:
            yield from (
                (sign, f"{field}: {encode(value).decode()}")
                for sign, value in (("-", before[field]), ("+", after[field]))
                if value is not None
            )
        return
    for sign, value in (("-", before), ("+", after)):
        yield from (
            (sign, str(each)) for each in (value if isinstance(value, list) else [value]) if each is not None
        )


def _totals(report: Report) -> Iterator[str]:
    totals = report.totals()
    yield f"{totals['compared']} replayed"
    yield f"{totals['same']} as before"
    uncertain = f" ({totals['uncertain']} uncertain)" if totals["uncertain"] else ""
    yield f"{totals['different']} different{uncertain}"
    yield from (f"{totals[name]} {words}" for name, words in _NOT_COMPARED.items() if totals[name])
