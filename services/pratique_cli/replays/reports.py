"""Reports of the differences in a replay, for people and for programs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Protocol, TextIO

import msgspec

from pratique.apimachinery.json_values import JSON, JSONObject, encode
from pratique.apimachinery.source_documents import display_path
from pratique_cli.encoding import encode_document, json_line
from pratique_cli.outputs.changes import subject
from pratique_cli.outputs.findings import StepOrigin
from pratique_cli.replays.comparisons import Difference, DifferenceKind
from pratique_cli.replays.recorded_reviews import RecordedReview
from pratique_cli.terminal import Palette, palette_for, printable


class DifferenceExample(msgspec.Struct, frozen=True):
    """A difference, with the review in which it occurs."""

    file: str
    line: int
    uid: str
    subject: str
    difference: Difference

    @classmethod
    def of(cls, recorded: RecordedReview, difference: Difference) -> DifferenceExample:
        """Keep what identifies a review, but not the review itself, to save memory."""
        document, review = recorded.document, recorded.review
        return cls(document.file, document.line, review.uid, subject(review), difference)


class DifferenceCount(msgspec.Struct):
    """The differences of one kind with one origin."""

    count: int = 0
    uncertain: int = 0
    """Of those, differences that may not be real."""
    examples: list[DifferenceExample] = msgspec.field(default_factory=list)
    """The first few differences."""


class ReplayReport(msgspec.Struct):
    """The differences of a whole replay, in bounded memory."""

    examples: int
    """How many examples to keep of each kind and origin."""
    same: int = 0
    """Reviews decided as before."""
    different: int = 0
    uncertain: int = 0
    """Of those, reviews of which no difference is certain."""
    omitted: int = 0
    """Reviews recorded without objects, which cannot be decided."""
    skipped: int = 0
    """Reviews influenced by webhooks, with webhooks skipped: not compared."""
    unreadable: int = 0
    undecided: int = 0
    """Documents that were not decided in time."""
    sums: dict[StepOrigin, dict[DifferenceKind, DifferenceCount]] = msgspec.field(default_factory=dict)

    @property
    def compared(self) -> int:
        """The number of compared reviews."""
        return self.same + self.different

    def add(self, recorded: RecordedReview, differences: Sequence[Difference]) -> None:
        """Count one compared review."""
        if not differences:
            self.same += 1
            return
        self.different += 1
        self.uncertain += all(difference.uncertain for difference in differences)
        for difference in differences:
            entry = self.sums.setdefault(difference.origin, {}).setdefault(difference.kind, DifferenceCount())
            entry.count += 1
            entry.uncertain += bool(difference.uncertain)
            if len(entry.examples) < self.examples:
                entry.examples.append(DifferenceExample.of(recorded, difference))

    def groups(self) -> Iterator[tuple[StepOrigin, list[tuple[DifferenceKind, DifferenceCount]]]]:
        """Yield the counts by origin, sorted by name, then by kind."""
        for origin in sorted(
            self.sums, key=lambda origin: (origin.controller, origin.configuration, origin.name)
        ):
            yield (
                origin,
                [(kind, self.sums[origin][kind]) for kind in DifferenceKind if kind in self.sums[origin]],
            )

    def totals(self) -> JSONObject:
        """The totals as JSON."""
        return {
            "compared": self.compared,
            "same": self.same,
            "different": self.different,
            "uncertain": self.uncertain,
            "omitted": self.omitted,
            "skipped": self.skipped,
            "unreadable": self.unreadable,
            "undecided": self.undecided,
        }

    def to_document(self) -> JSONObject:
        """The report as JSON."""
        groups = [
            {**origin_document(origin), "differences": [_count_document(*entry) for entry in sums]}
            for origin, sums in self.groups()
        ]
        return {"totals": self.totals(), "groups": groups}


def origin_document(origin: StepOrigin) -> JSONObject:
    """An origin as JSON."""
    return {"controller": origin.controller, "configuration": origin.configuration, "name": origin.name}


def difference_document(difference: Difference) -> JSONObject:
    """A difference as JSON."""
    return {"before": difference.before, "after": difference.after, "uncertain": list(difference.uncertain)}


def _count_document(kind: DifferenceKind, entry: DifferenceCount) -> JSONObject:
    examples = [
        {"file": example.file, "line": example.line, "uid": example.uid, "subject": example.subject}
        | difference_document(example.difference)
        for example in entry.examples
    ]
    return {"kind": kind.value, "count": entry.count, "uncertain": entry.uncertain, "examples": examples}


KIND_TEXTS = {
    DifferenceKind.DENIED: "admitted before, denied now",
    DifferenceKind.ADMITTED: "denied before, admitted now",
    DifferenceKind.REASON: "denied as before, for another reason",
    DifferenceKind.OBJECT: "admitted as another object",
    DifferenceKind.WARNINGS: "warned of something else",
    DifferenceKind.AUDIT: "audited otherwise",
}
"""What each kind means."""
_KIND_STYLES = {
    DifferenceKind.DENIED: ("✗", "red"),
    DifferenceKind.ADMITTED: ("✓", "green"),
    DifferenceKind.REASON: ("✗", "yellow"),
    DifferenceKind.OBJECT: ("~", "cyan"),
    DifferenceKind.WARNINGS: ("!", "yellow"),
    DifferenceKind.AUDIT: ("·", "dim"),
}
_NOT_COMPARED = {
    "omitted": "recorded without objects",
    "skipped": "decided by webhooks, which are left out",
    "unreadable": "unreadable",
    "undecided": "undecided",
}


class ReplayTextOutput:
    """Writes the differences by origin, with examples, and the totals."""

    def __init__(self, stream: TextIO, palette: Palette) -> None:
        """Write to ``stream``."""
        self._stream = stream
        self._palette = palette

    def write(self, recorded: RecordedReview, differences: Sequence[Difference]) -> None:
        """Write nothing yet: differences are grouped at the end."""

    def finish(self, report: ReplayReport) -> None:
        """Write the whole report."""
        for origin, sums in report.groups():
            lines = [
                self._palette.paint(
                    printable(str(origin) if origin.controller else "nobody in particular"), "bold"
                )
            ]
            for kind, entry in sums:
                lines += self._sum(kind, entry)
            self._stream.write("\n".join([*lines, "", ""]))
        self._stream.write(", ".join(total_texts(report)) + "\n")
        self._stream.flush()

    def _sum(self, kind: DifferenceKind, entry: DifferenceCount) -> Iterator[str]:
        mark, style = _KIND_STYLES[kind]
        uncertain = f", {entry.uncertain} uncertain" if entry.uncertain else ""
        text = f"{self._palette.mark(mark)} {entry.count} {KIND_TEXTS[kind]}"
        yield f"  {self._palette.paint(text, style)}{uncertain}"
        for example in entry.examples:
            yield from self._example(example)
        if entry.count > len(entry.examples):
            yield f"      {self._palette.mark('…')} and {entry.count - len(entry.examples)} more"

    def _example(self, example: DifferenceExample) -> Iterator[str]:
        place = self._palette.paint(f"({printable(display_path(example.file))}:{example.line})", "dim")
        yield f"      {printable(example.subject)}  {place}"
        difference = example.difference
        for sign, text in change_lines(difference.before, difference.after):
            yield self._palette.cut(f"        {sign} {printable(text)}", self._palette.width)
        for reason in difference.uncertain:
            yield self._palette.paint(
                f"        {self._palette.mark('?')} uncertain: {printable(reason)}", "yellow"
            )


def change_lines(before: JSON, after: JSON) -> Iterator[tuple[str, str]]:
    """Yield old values with ``-`` and new ones with ``+``, field by field or item by item."""
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
            (sign, str(element))
            for element in (value if isinstance(value, list) else [value])
            if element is not None
        )


def total_texts(report: ReplayReport) -> Iterator[str]:
    """Yield the totals as texts, such as ``200 replayed``."""
    totals = report.totals()
    yield f"{totals['compared']} replayed"
    yield f"{totals['same']} as before"
    uncertain = f" ({totals['uncertain']} uncertain)" if totals["uncertain"] else ""
    yield f"{totals['different']} different{uncertain}"
    yield from (f"{totals[name]} {words}" for name, words in _NOT_COMPARED.items() if totals[name])


class ReplayOutput(Protocol):
    """Writes the result of a replay."""

    def write(self, recorded: RecordedReview, differences: Sequence[Difference]) -> None:
        """Write the differences of one review, if the format lists single reviews."""

    def finish(self, report: ReplayReport) -> None:
        """Write the end of the output."""


class ReplayLinesOutput:
    """``-o jsonl``: a line for each review with differences, written at once."""

    def __init__(self, stream: BinaryIO) -> None:
        """Write UTF-8 to ``stream``."""
        self._stream = stream

    def write(self, recorded: RecordedReview, differences: Sequence[Difference]) -> None:
        """Write one line."""
        line = {
            "file": recorded.document.file,
            "line": recorded.document.line,
            "uid": recorded.review.uid,
            "subject": subject(recorded.review),
            "configuration": recorded.configuration,
            "differences": [
                {
                    "kind": difference.kind.value,
                    **origin_document(difference.origin),
                    **difference_document(difference),
                }
                for difference in differences
            ],
        }
        self._stream.write(json_line(line))
        self._stream.flush()

    def finish(self, report: ReplayReport) -> None:
        """Write nothing: there is nothing to close."""


class ReplayDocumentOutput:
    """``-o json``, ``-o yaml``: the whole report, at the end."""

    def __init__(self, stream: BinaryIO, output: str) -> None:
        """Write UTF-8 to ``stream``, as ``json`` or ``yaml``."""
        self._stream = stream
        self._format = output

    def write(self, recorded: RecordedReview, differences: Sequence[Difference]) -> None:
        """Write nothing yet."""

    def finish(self, report: ReplayReport) -> None:
        """Write the report."""
        self._stream.write(encode_document(report.to_document(), self._format))
        self._stream.flush()


def open_replay_output(name: str) -> ReplayOutput:
    """Make the output for one of ``pratique_cli.options.FORMATS``; it writes to standard output."""
    if name == "text":
        return ReplayTextOutput(sys.stdout, palette_for(sys.stdout, colour=None))
    if name == "jsonl":
        return ReplayLinesOutput(sys.stdout.buffer)
    return ReplayDocumentOutput(sys.stdout.buffer, name)
