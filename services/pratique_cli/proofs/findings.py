"""Findings: violations of one kind by the same mutators, with the object that shows it best."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique_cli.proofs.violations import Defect, Key, Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from frontdoor.mutator_sets import Mutator
    from pratique.json_values import JSONObject
    from pratique_cli.proofs.cases import Case


@dataclasses.dataclass(slots=True)
class Finding:
    """What was found."""

    violation: Violation
    """As the object shows it."""
    case: Case
    """The object with which it was seen first."""
    document: JSONObject = dataclasses.field(repr=False)
    """The object, made as small as it can be."""
    seen: int = 1
    """With how many objects."""

    @property
    def key(self) -> Key:
        """What makes it the same as another."""
        return self.violation.key


@dataclasses.dataclass(slots=True)
class Findings:
    """All that was found, in the order in which it was."""

    by_key: dict[Key, Finding] = dataclasses.field(default_factory=dict)

    def __iter__(self) -> Iterator[Finding]:
        """What is to be told: not what follows from something else that is told."""
        return (one for one in self.by_key.values() if not self._follows(one.violation))

    def add(self, violations: Iterable[Violation], case: Case, *, counted: bool = False) -> None:
        """Take down what one object shows; ``counted`` where that object has been looked at before."""
        first: dict[Key, Violation] = {}
        for violation in violations:
            first.setdefault(violation.key, violation)
        for key, violation in first.items():
            if key not in self.by_key:
                self.by_key[key] = Finding(violation, case, case.document)
            elif not counted:
                self.by_key[key].seen += 1

    def _follows(self, violation: Violation) -> bool:
        """Tell whether it only says again what another finding says better."""
        stronger = {
            Defect.ORDER: (Defect.CONFLICT, Defect.UNDONE),
            Defect.CONFLICT: (Defect.UNDONE,),
        }.get(violation.defect, ())
        pair = set(violation.mutators)
        others = [one.violation for one in self.by_key.values()]
        if any(other.defect in stronger and set(other.mutators) == pair for other in others):
            return True
        # Whoever does not do the same twice does not do the same in another order either, or refuses anything.
        unsteady = {Defect.NOT_DETERMINISTIC, Defect.NOT_IDEMPOTENT, Defect.REFUSES_OWN, Defect.FAILS}
        alone = {
            other.mutators[0] for other in others if other.defect in unsteady and len(other.mutators) == 1
        }
        return violation.defect is Defect.ORDER and bool(pair & alone)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came of a proof."""

    mutators: tuple[Mutator, ...]
    """All of the chain, in chain order."""
    acted: Mapping[Mutator, int]
    """With how many objects each did something."""
    findings: tuple[Finding, ...]
    given: int
    """How many objects were given."""
    made: Mapping[str, int]
    """How many objects were made up, by ``apiVersion/kind``."""
    refused: int
    """Of all these, how many the mutating phase refused as they came."""
    seed: int
    """What the made-up objects come of."""
    trouble: str = ""
    """Why the proof ended early; empty where it did not."""

    @property
    def tried(self) -> int:
        """How many objects were tried."""
        return self.given + sum(self.made.values())

    @property
    def holds(self) -> bool:
        """Whether nothing was found, and nothing went wrong."""
        return not self.findings and not self.trouble
