"""Decisions in shadow: what those of recorded reviews would have denied and changed, of which namespaces and users."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.source_documents import SourceDocument, display_path
from pratique.policies.rollouts import namespace_place
from pratique_cli.outputs.changes import subject
from pratique_cli.outputs.findings import StepOrigin
from pratique_cli.terminal import printable

_DENIALS = ("denied", "failed")
_DIFFERENCES = (*_DENIALS, "failedOpen", "mutated", "warned")
_WORDS = {
    "denied": "denied",
    "failed": "denied because it failed",
    "failedOpen": "failed and been ignored",
    "mutated": "changed",
    "warned": "warned of",
    "allowed": "allowed",
    "unchanged": "left unchanged",
}
_MOST_SHOWN = 10
"""Namespaces and users in a text."""


class ShadowEvidence(msgspec.Struct):
    """What one policy, webhook or controller in shadow would have done."""

    rollout: str
    """The name of the PolicyRollout."""
    origin: StepOrigin
    outcomes: collections.Counter[str] = msgspec.field(default_factory=collections.Counter)
    """How many reviews would have had each outcome."""
    namespaces: collections.Counter[str] = msgspec.field(default_factory=collections.Counter)
    """How many reviews of each namespace would have been decided otherwise; empty is no namespace."""
    users: collections.Counter[str] = msgspec.field(default_factory=collections.Counter)
    """How many reviews of each user would have been."""
    examples: list[JSONObject] = msgspec.field(default_factory=list)
    """The first of these reviews."""

    @property
    def reviews(self) -> int:
        """How many reviews it has decided."""
        return self.outcomes.total()

    @property
    def denials(self) -> int:
        """How many of them would have been denied."""
        return sum(self.outcomes[outcome] for outcome in _DENIALS)

    @property
    def document(self) -> JSONObject:
        """The evidence as JSON."""
        return {
            "rollout": self.rollout,
            "controller": self.origin.controller,
            "configuration": self.origin.configuration,
            "name": self.origin.name,
            "reviews": self.reviews,
            "outcomes": dict(self.outcomes.most_common()),
            "namespaces": [
                {
                    "name": name,
                    "reviews": count,
                    "canaryFromPercent": namespace_place(name) + 1 if name else None,
                }
                for name, count in _ranked(self.namespaces)
            ],
            "users": [{"name": name, "reviews": count} for name, count in _ranked(self.users)],
            "examples": self.examples,
        }

    def lines(self) -> Iterator[str]:
        """Write the evidence for people."""
        yield f"PolicyRollout {printable(self.rollout)}: {printable(str(self.origin))}"
        counts = ", ".join(
            f"{count} {_WORDS.get(outcome, outcome)}" for outcome, count in self.outcomes.most_common()
        )
        yield f"    of {self.reviews} {_plural('review', self.reviews)} it would have: {counts}"
        if self.namespaces:
            named = ((_namespace_text(name), count) for name, count in _ranked(self.namespaces))
            yield f"    namespaces: {_listed(list(named))}"
        if self.users:
            yield f"    users: {_listed([(printable(name), count) for name, count in _ranked(self.users)])}"
        for example in self.examples:
            told = printable(f"{example['subject']} by {example['user']}: {example['reason']}")
            yield f"    {example['place']}  {told}"


class ShadowSummary:
    """The evidence of all shadows that reviews have met."""

    def __init__(self, examples: int) -> None:
        """Show up to ``examples`` reviews for each."""
        self._examples = examples
        self._found: dict[tuple[str, StepOrigin], ShadowEvidence] = {}
        self.reviews = 0
        """Reviews that were added."""

    @property
    def evidence(self) -> Sequence[ShadowEvidence]:
        """What each would have done, by rollout."""
        return [self._found[key] for key in sorted(self._found, key=str)]

    def add(
        self, document: SourceDocument, review: Review, steps: Iterable[Mapping[str, JSONObject | str]]
    ) -> None:
        """Add the steps of a decision on a review, as decision documents have them.

        Raises:
            KeyError: a step is not one of a decision document. TypeError and AttributeError likewise.
        """
        self.reviews += 1
        decided: dict[tuple[str, StepOrigin], tuple[str, str]] = {}
        for step in steps:
            shadow = step.get("shadow")
            if not isinstance(shadow, dict):
                continue
            origin = StepOrigin(str(step["controller"]), _part(step), str(step.get("configuration", "")))
            key, outcome = (str(shadow["rollout"]), origin), str(shadow["outcome"])
            # A controller in both phases has two steps of one review: the one that would have made a difference counts.
            if key not in decided or _rank(outcome) < _rank(decided[key][0]):
                decided[key] = outcome, str(step.get("reason", ""))
        for (rollout, origin), (outcome, reason) in decided.items():
            evidence = self._found.setdefault((rollout, origin), ShadowEvidence(rollout, origin))
            evidence.outcomes[outcome] += 1
            if outcome in _DIFFERENCES:
                self._add_difference(evidence, document, review, reason)

    def _add_difference(
        self, evidence: ShadowEvidence, document: SourceDocument, review: Review, reason: str
    ) -> None:
        evidence.namespaces[review.namespace] += 1
        evidence.users[review.user.username] += 1
        if len(evidence.examples) < self._examples:
            evidence.examples.append(
                {
                    "place": f"{display_path(document.file)}:{document.line}",
                    "subject": subject(review),
                    "user": review.user.username,
                    "reason": reason.partition(": ")[2],
                }
            )


def _part(step: Mapping[str, JSONObject | str]) -> str:
    """Return the name of a step, if it says more than its controller's."""
    return "" if step["name"] == step["controller"] else str(step["name"])


def _rank(outcome: str) -> int:
    return _DIFFERENCES.index(outcome) if outcome in _DIFFERENCES else len(_DIFFERENCES)


def _ranked(counts: collections.Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _namespace_text(name: str) -> str:
    return f"{printable(name)} (a canary from {namespace_place(name) + 1} %)" if name else "none"


def _listed(named: Sequence[tuple[str, int]]) -> str:
    more = f" and {len(named) - _MOST_SHOWN} more" if len(named) > _MOST_SHOWN else ""
    return ", ".join(f"{name} {count}" for name, count in named[:_MOST_SHOWN]) + more


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
