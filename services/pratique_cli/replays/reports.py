"""Reports: what differs in all reviews, grouped by who made the difference."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique_cli.outputs.subjects import subject
from pratique_cli.replays.comparisons import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pratique.json_values import JSONObject
    from pratique_cli.outputs.findings import Rule
    from pratique_cli.replays.comparisons import Difference
    from pratique_cli.replays.recorded import Recorded


@dataclasses.dataclass(frozen=True, slots=True)
class Example:
    """One difference, and the review in which it is found."""

    file: str
    line: int
    uid: str
    subject: str
    difference: Difference

    @classmethod
    def of(cls, recorded: Recorded, difference: Difference) -> Example:
        """Take what is told of a review: not the review, which is forgotten."""
        document, review = recorded.document, recorded.review
        return cls(document.file, document.line, review.uid, subject(review), difference)


@dataclasses.dataclass(slots=True)
class Sum:
    """The differences of one kind that one rule made."""

    count: int = 0
    uncertain: int = 0
    """Of those: may be none in truth."""
    examples: list[Example] = dataclasses.field(default_factory=list)
    """The first few."""


@dataclasses.dataclass(slots=True)
class Report:
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
    sums: dict[Rule, dict[Kind, Sum]] = dataclasses.field(default_factory=dict)

    @property
    def compared(self) -> int:
        """Reviews that were decided and compared."""
        return self.same + self.different

    def add(self, recorded: Recorded, differences: Sequence[Difference]) -> None:
        """Count one review that was compared."""
        if not differences:
            self.same += 1
            return
        self.different += 1
        self.uncertain += all(one.uncertain for one in differences)
        for one in differences:
            entry = self.sums.setdefault(one.rule, {}).setdefault(one.kind, Sum())
            entry.count += 1
            entry.uncertain += bool(one.uncertain)
            if len(entry.examples) < self.examples:
                entry.examples.append(Example.of(recorded, one))

    def groups(self) -> Iterator[tuple[Rule, list[tuple[Kind, Sum]]]]:
        """The sums by rule, in the order of the rules' names; kinds in their own."""
        for rule in sorted(self.sums, key=lambda one: (one.controller, one.configuration, one.name)):
            yield rule, [(kind, self.sums[rule][kind]) for kind in Kind if kind in self.sums[rule]]

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
            {**rule_document(rule), "differences": [_sum_document(*each) for each in sums]}
            for rule, sums in self.groups()
        ]
        return {"totals": self.totals(), "groups": groups}


def rule_document(rule: Rule) -> JSONObject:
    """A rule as JSON."""
    return {"controller": rule.controller, "configuration": rule.configuration, "name": rule.name}


def difference_document(difference: Difference) -> JSONObject:
    """What was, what is, and how far that can be told, as JSON."""
    return {"before": difference.before, "after": difference.after, "uncertain": list(difference.uncertain)}


def _sum_document(kind: Kind, entry: Sum) -> JSONObject:
    examples = [
        {"file": one.file, "line": one.line, "uid": one.uid, "subject": one.subject}
        | difference_document(one.difference)
        for one in entry.examples
    ]
    return {"kind": kind.value, "count": entry.count, "uncertain": entry.uncertain, "examples": examples}
