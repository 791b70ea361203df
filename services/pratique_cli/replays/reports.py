"""Reports: what differs in all reviews, for a person and for programs."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from pratique.apimachinery.json_values import JSON, JSONObject, encode
from pratique.apimachinery.source_documents import display_path
from pratique_cli.outputs.findings import StepOrigin
from pratique_cli.outputs.texts import subject
from pratique_cli.replays.comparisons import Difference, DifferenceKind
from pratique_cli.replays.recorded_reviews import RecordedReview
from pratique_cli.terminal import Palette, printable

if TYPE_CHECKING:
    from typing import BinaryIO, TextIO


@dataclasses.dataclass(frozen=True, slots=True)
class DifferenceExample:
    """One difference, and the review in which it is found."""

    file: str
    line: int
    uid: str
    subject: str
    difference: Difference

    @classmethod
    def of(cls, recorded: RecordedReview, difference: Difference) -> DifferenceExample:
        """Take what is told of a review: not the review, which is forgotten."""
        document, review = recorded.document, recorded.review
        return cls(document.file, document.line, review.uid, subject(review), difference)


@dataclasses.dataclass(slots=True)
class DifferenceCount:
    """The differences of one kind that one rule made."""

    count: int = 0
    uncertain: int = 0
    """Of those: may be none in truth."""
    examples: list[DifferenceExample] = dataclasses.field(default_factory=list)
    """The first few."""


@dataclasses.dataclass(slots=True)
class ReplayReport:
    """All of a replay, in memory that does not grow with it."""

    examples: int
    """How many examples are kept of each sum."""
    same: int = 0
    """Reviews decided as before."""
    different: int = 0
    uncertain: int = 0
    """Of those: all differences may be none in truth."""
    omitted: int = 0
    """Recorded without objects: not decided."""
    skipped: int = 0
    """A webhook had a part in the decision, and webhooks are left out: not compared."""
    unreadable: int = 0
    undecided: int = 0
    """No decision in time."""
    sums: dict[StepOrigin, dict[DifferenceKind, DifferenceCount]] = dataclasses.field(default_factory=dict)

    @property
    def compared(self) -> int:
        """Reviews that were decided and compared."""
        return self.same + self.different

    def add(self, recorded: RecordedReview, differences: Sequence[Difference]) -> None:
        """Count one review that was compared."""
        if not differences:
            self.same += 1
            return
        self.different += 1
        self.uncertain += all(one.uncertain for one in differences)
        for one in differences:
            entry = self.sums.setdefault(one.rule, {}).setdefault(one.kind, DifferenceCount())
            entry.count += 1
            entry.uncertain += bool(one.uncertain)
            if len(entry.examples) < self.examples:
                entry.examples.append(DifferenceExample.of(recorded, one))

    def groups(self) -> Iterator[tuple[StepOrigin, list[tuple[DifferenceKind, DifferenceCount]]]]:
        """The sums by rule, in the order of the rules' names; kinds in their own."""
        for rule in sorted(self.sums, key=lambda one: (one.controller, one.configuration, one.name)):
            yield rule, [(kind, self.sums[rule][kind]) for kind in DifferenceKind if kind in self.sums[rule]]

    def totals(self) -> JSONObject:
        """How many reviews came to what."""
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
            {**rule_document(rule), "differences": [_count_document(*each) for each in sums]}
            for rule, sums in self.groups()
        ]
        return {"totals": self.totals(), "groups": groups}


def rule_document(rule: StepOrigin) -> JSONObject:
    """A rule as JSON."""
    return {"controller": rule.controller, "configuration": rule.configuration, "name": rule.name}


def difference_document(difference: Difference) -> JSONObject:
    """What was, what is, and how far that can be told, as JSON."""
    return {"before": difference.before, "after": difference.after, "uncertain": list(difference.uncertain)}


def _count_document(kind: DifferenceKind, entry: DifferenceCount) -> JSONObject:
    examples = [
        {"file": one.file, "line": one.line, "uid": one.uid, "subject": one.subject}
        | difference_document(one.difference)
        for one in entry.examples
    ]
    return {"kind": kind.value, "count": entry.count, "uncertain": entry.uncertain, "examples": examples}


_KIND_TEXTS = {
    DifferenceKind.DENIED: "admitted before, denied now",
    DifferenceKind.ADMITTED: "denied before, admitted now",
    DifferenceKind.REASON: "denied as before, for another reason",
    DifferenceKind.OBJECT: "admitted as another object",
    DifferenceKind.WARNINGS: "warned of something else",
    DifferenceKind.AUDIT: "audited otherwise",
}
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
    """Writes the differences by who made them, with examples, and how many reviews came to what."""

    def __init__(self, stream: TextIO, palette: Palette) -> None:
        """Write to ``stream``."""
        self._stream = stream
        self._palette = palette

    def write(self, recorded: RecordedReview, differences: Sequence[Difference]) -> None:
        """Write nothing yet: what belongs together is told together."""

    def finish(self, report: ReplayReport) -> None:
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
        self._stream.write(", ".join(_total_texts(report)) + "\n")
        self._stream.flush()

    def _sum(self, kind: DifferenceKind, entry: DifferenceCount) -> Iterator[str]:
        mark, style = _KIND_STYLES[kind]
        uncertain = f", {entry.uncertain} uncertain" if entry.uncertain else ""
        yield f"  {self._palette.paint(f'{self._palette.mark(mark)} {entry.count} {_KIND_TEXTS[kind]}', style)}{uncertain}"
        for example in entry.examples:
            yield from self._example(example)
        if entry.count > len(entry.examples):
            yield f"      {self._palette.mark('…')} and {entry.count - len(entry.examples)} more"

    def _example(self, example: DifferenceExample) -> Iterator[str]:
        place = self._palette.paint(f"({printable(display_path(example.file))}:{example.line})", "dim")
        yield f"      {printable(example.subject)}  {place}"
        difference = example.difference
        for sign, told in _change_lines(difference.before, difference.after):
            yield self._palette.cut(f"        {sign} {printable(told)}", self._palette.width)
        for reason in difference.uncertain:
            yield self._palette.paint(
                f"        {self._palette.mark('?')} uncertain: {printable(reason)}", "yellow"
            )


def _change_lines(before: JSON, after: JSON) -> Iterator[tuple[str, str]]:
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


def _total_texts(report: ReplayReport) -> Iterator[str]:
    totals = report.totals()
    yield f"{totals['compared']} replayed"
    yield f"{totals['same']} as before"
    uncertain = f" ({totals['uncertain']} uncertain)" if totals["uncertain"] else ""
    yield f"{totals['different']} different{uncertain}"
    yield from (f"{totals[name]} {words}" for name, words in _NOT_COMPARED.items() if totals[name])


class ReplayOutput(Protocol):
    """Writes what a replay finds."""

    def write(self, recorded: RecordedReview, differences: Sequence[Difference]) -> None:
        """Write of one review what differs, where the format tells of single ones."""

    def finish(self, report: ReplayReport) -> None:
        """Write what there is to say of all."""


class ReplayLinesOutput:
    """``-o jsonl``: a line for each review that is decided otherwise, as soon as that is known."""

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
                {"kind": one.kind.value, **rule_document(one.rule), **difference_document(one)}
                for one in differences
            ],
        }
        self._stream.write(encode(line) + b"\n")
        self._stream.flush()

    def finish(self, report: ReplayReport) -> None:
        """Write nothing: the lines say it all."""


class ReplayDocumentOutput:
    """``-o json``, ``-o yaml``: the report, at the end."""

    def __init__(self, stream: BinaryIO, *, yaml: bool) -> None:
        """Write UTF-8 to ``stream``."""
        self._stream = stream
        self._yaml = yaml

    def write(self, recorded: RecordedReview, differences: Sequence[Difference]) -> None:
        """Write nothing yet."""

    def finish(self, report: ReplayReport) -> None:
        """Write the report."""
        if self._yaml:
            from pratique_cli.terminal import dump_yaml  # noqa: PLC0415 - it takes a tenth of a second

            self._stream.write(dump_yaml(report.to_document()).encode())
        else:
            self._stream.write(msgspec.json.format(encode(report.to_document()), indent=2) + b"\n")
        self._stream.flush()


def open_replay_output(name: str) -> ReplayOutput:
    """Make the output for one of ``pratique_cli.options.FORMATS``; it writes to standard output."""
    if name == "text":
        from pratique_cli.replays.reports import ReplayTextOutput  # noqa: PLC0415 - likewise
        from pratique_cli.terminal import palette_for  # noqa: PLC0415 - for people alone

        return ReplayTextOutput(sys.stdout, palette_for(sys.stdout, colour=None))
    if name == "jsonl":
        return ReplayLinesOutput(sys.stdout.buffer)
    return ReplayDocumentOutput(sys.stdout.buffer, yaml=name == "yaml")
