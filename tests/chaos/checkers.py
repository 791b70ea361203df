"""The checker: checks a history against the invariants after the run, and counts availability."""

from __future__ import annotations

import dataclasses

from chaos.evidence import RECOVERY_SECONDS, Case, Evidence
from chaos.invariants import INVARIANTS
from chaos.schedules import DOOR, KILL_A_WORKER, MUTATORS, VALIDATORS

PATIENT_SECONDS = 10.0
"""The time of a request that outlasts a replica which is frozen: within 7 s it is left out."""
NOTICING_SECONDS = 0.5
"""Until a service has noticed that a worker of its own is gone. The call that was alone in it has failed, as that may
have been its own doing (docs/adr/0010-controllers-in-processes.md)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Violation:
    """Something that must not be."""

    invariant: str
    """Its letter."""
    text: str


def violations(evidence: Evidence) -> list[Violation]:
    """All that must not be and was."""
    return [Violation(letter, text) for letter, find in INVARIANTS for text in find(evidence)]


@dataclasses.dataclass(frozen=True, slots=True)
class Availability:
    """How many of the requests were answered rightly that should have been.

    They are those that had time for a frozen replica to be left out, while whatever was done left the front door and
    one replica of each service unharmed and reachable.
    """

    due: int
    right: int

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.right / self.due if self.due else 1.0


def availability(evidence: Evidence) -> Availability:
    """Count them."""
    due = [case for case in evidence.cases if _should_be_right(evidence, case)]
    return Availability(len(due), sum(map(evidence.is_right, due)))


def _should_be_right(evidence: Evidence, case: Case) -> bool:
    hurt = {item.target for item in evidence.during(case, after=RECOVERY_SECONDS)}
    left = DOOR not in hurt and not hurt.issuperset(MUTATORS) and not hurt.issuperset(VALIDATORS)
    alone = any(item.nemesis == KILL_A_WORKER for item in evidence.during(case, after=NOTICING_SECONDS))
    return left and not alone and case.asked.timeout >= PATIENT_SECONDS
