"""Records: what has happened to one review so far."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from frontdoor.chain.outages import OutageError
    from frontdoor.decisions import Step
    from pratique.json_values import JSONObject
    from pratique.statuses import Status


@dataclasses.dataclass(slots=True)
class Record:
    """What some steps did. Each stage of the validating phase fills one of its own, merged in chain order."""

    steps: list[Step] = dataclasses.field(default_factory=list)
    """In the order in which they happened."""
    denials: list[Status] = dataclasses.field(default_factory=list)
    """In chain order."""
    warnings: list[str] = dataclasses.field(default_factory=list)
    """As they came."""
    audit_annotations: dict[str, str] = dataclasses.field(default_factory=dict)
    """By full key."""

    amendments: list[JSONObject] = dataclasses.field(default_factory=list)
    """What validating controllers do to the object, should it be let through."""

    outages: list[OutageError] = dataclasses.field(default_factory=list)
    """Services that gave no usable answer. They count where nobody refused the request."""

    def deny(self, status: Status) -> None:
        """Add a refusal."""
        self.denials.append(status)

    def annotate(self, annotations: Mapping[str, str]) -> None:
        """Add audit annotations; a key that is there keeps its first value, as in the API server."""
        for key, value in annotations.items():
            self.audit_annotations.setdefault(key, value)

    def merge(self, others: Iterable[Record]) -> None:
        """Add what others recorded, in the order given."""
        for other in others:
            self.steps += other.steps
            self.denials += other.denials
            self.warnings += other.warnings
            self.annotate(other.audit_annotations)
            self.amendments += other.amendments
            self.outages += other.outages

    def settle(self) -> None:
        """See that the request was decided: a refusal stands, whoever else could not be asked.

        Raises:
            OutageError: nobody refused the request, and somebody who might have could not be asked.
        """
        if self.outages and not self.denials:
            raise self.outages[0]
