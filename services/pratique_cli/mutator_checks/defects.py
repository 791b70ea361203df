"""Defects of mutators, as one object shows them, and the fields in which two objects differ."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from pratique.apimachinery.diff import identical
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique_cli.mutator_checks.cases import MutatorCase
from pratique_cli.outputs.changes import ObjectPath, path_text

if TYPE_CHECKING:
    from pratique_cli.mutator_checks.checks import MutatorCheck
    from pratique_frontdoor.engines.mutator_sets import Mutator

_IN_ORDER = "initContainers"
"""Init containers run one after another, so that their order matters."""

_ABSENT = object()
"""Marks a missing value; null is a value."""


def changed_values(before: JSON, after: JSON) -> dict[ObjectPath, JSON]:
    """The leaf values that ``after`` changes, by path; None for removed ones."""
    changed: dict[ObjectPath, JSON] = {}
    for path, old, new in _differences(before, after, ()):
        gone = dict.fromkeys(path_ for path_, _ in _values(old, path)) if old is not _ABSENT else {}
        changed |= gone
        changed |= dict(_values(new, path)) if new is not _ABSENT else {}
    return changed


def differing_fields(first: JSON, second: JSON) -> tuple[str, ...]:
    """The fields in which two objects differ, formatted as Kubernetes does."""
    return tuple(dict.fromkeys(path_text(path) for path, _, _ in _differences(first, second, ())))


def _differences(first: JSON, second: JSON, path: ObjectPath) -> Iterator[tuple[ObjectPath, JSON, JSON]]:
    """Yield the paths at which two values differ, with both values; a value missing on one side is one path."""
    if first is second or (_ABSENT not in (first, second) and identical(first, second)):
        return
    named = _are_named(first) and _are_named(second)
    mine, theirs = _members(first, named=named), _members(second, named=named)
    if mine is None or theirs is None or type(first) is not type(second):
        yield path, first, second
        return
    differing = [
        found
        for step in dict.fromkeys((*mine, *theirs))
        for found in _differences(mine.get(step, _ABSENT), theirs.get(step, _ABSENT), (*path, step))
    ]
    yield from differing or [(path, first, second)]  # the same items in another order


def without_order(value: JSON) -> JSON:
    """Sort lists of named items by name, because the order of sidecars and the like seldom matters."""
    if isinstance(value, dict):
        return {
            key: [without_order(element) for element in item]
            if key == _IN_ORDER and isinstance(item, list)
            else without_order(item)
            for key, item in value.items()
        }
    if not isinstance(value, list):
        return value
    items = [without_order(element) for element in value]
    return sorted(items, key=lambda item: str(item["name"])) if _are_named(value) else items


def _values(value: JSON, path: ObjectPath) -> Iterator[tuple[ObjectPath, JSON]]:
    members = _members(value, named=_are_named(value))
    if not members:
        yield path, value
        return
    for step, item in members.items():
        yield from _values(item, (*path, step))


def _members(value: JSON, *, named: bool) -> dict[str | int, JSON] | None:
    """The members of an object, or the items of a list by index or name; None for leaf values."""
    if isinstance(value, dict):
        return dict(value)
    if not isinstance(value, list):
        return None
    return {f"name={item['name']}": item for item in value} if named else dict(enumerate(value))


def _are_named(items: JSON) -> bool:
    """Whether a value is a list whose items have distinct names."""
    if not isinstance(items, list):
        return False
    names = [item.get("name") if isinstance(item, dict) else None for item in items]
    return all(isinstance(name, str) for name in names) and len(set(names)) == len(names)


class Defect(enum.StrEnum):
    """The kinds of defects, of one mutator or of several together."""

    FAILS = "fails"
    """It fails to decide on an object that it matches."""
    NOT_DETERMINISTIC = "notDeterministic"
    """It gives different results for the same object."""
    NOT_IDEMPOTENT = "notIdempotent"
    """It changes its own result again."""
    REFUSES_OWN = "refusesOwnOutput"
    """It denies its own result."""
    NOT_SETTLED = "notSettled"
    """It changes the common result of all mutators again, though not its own result."""
    UNDONE = "undone"
    """Two mutators undo each other's changes forever."""
    CONFLICT = "conflict"
    """Two mutators write different values to one field."""
    ORDER = "order"
    """The result depends on the order of the mutators."""
    REFUSED = "refused"
    """Validation denies the mutated object, but would admit the original."""
    WRITER_LOOP = "writerLoop"
    """Mutators and a writer undo each other's changes forever."""
    WRITER_WINS = "writerWins"
    """A writer takes a change back, and the mutator does not make it again."""


@dataclasses.dataclass(frozen=True, slots=True)
class RunEvidence:
    """A run that shows a defect."""

    label: str
    """The name of the run in text: ``first run``, ``b after a``."""
    before: JSON = dataclasses.field(repr=False)
    """The object before the run."""
    after: JSON = dataclasses.field(repr=False)
    """The object after the run; unchanged if it was denied."""
    refusal: str = ""
    """Why it was denied; empty if it was not."""


DefectKey: TypeAlias = "tuple[Defect, tuple[Mutator, ...], str]"
"""What makes two defects the same finding."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MutatorDefect:
    """A defect, as one object shows it."""

    defect: Defect
    mutators: tuple[Mutator, ...]
    """The mutators with the defect."""
    text: str
    """One sentence that says what happens."""
    check: MutatorCheck = dataclasses.field(repr=False)
    """The check that found it, and can find it again."""
    fields: tuple[str, ...] = ()
    """The affected fields, such as ``metadata.labels.env``."""
    runs: tuple[RunEvidence, ...] = ()
    """The runs that show it."""
    growth: bool = False
    """Whether the object grows with every run, forever."""
    period: int = 0
    """The number of runs after which the same object returns; 0 if none does."""
    writer: str = ""
    """The name of the writer that takes part; empty if none does."""

    @property
    def key(self) -> DefectKey:
        """The key of its finding."""
        return self.defect, self.mutators, self.writer


@dataclasses.dataclass(slots=True)
class DefectFinding:
    """A defect, with the objects that show it."""

    violation: MutatorDefect
    """The defect, as ``document`` shows it."""
    case: MutatorCase
    """The case of the first object that showed it."""
    document: JSONObject = dataclasses.field(repr=False)
    """The object, reduced as far as possible."""
    seen: int = 1
    """How many objects showed it."""

    @property
    def key(self) -> DefectKey:
        """The key of the finding."""
        return self.violation.key


class DefectFindings(msgspec.Struct):
    """All findings, in the order in which they were made."""

    by_key: dict[DefectKey, DefectFinding] = msgspec.field(default_factory=dict)

    def __iter__(self) -> Iterator[DefectFinding]:
        """Iterate over the findings that do not follow from others."""
        return (finding for finding in self.by_key.values() if not self._is_consequence(finding.violation))

    def add(self, violations: Iterable[MutatorDefect], case: MutatorCase, *, counted: bool = False) -> None:
        """Add the defects that one object shows; ``counted`` if that object has been counted before."""
        first: dict[DefectKey, MutatorDefect] = {}
        for violation in violations:
            first.setdefault(violation.key, violation)
        for key, violation in first.items():
            if key not in self.by_key:
                self.by_key[key] = DefectFinding(violation, case, case.document)
            elif not counted:
                self.by_key[key].seen += 1

    def _is_consequence(self, violation: MutatorDefect) -> bool:
        """Whether a defect follows from another finding."""
        stronger = {
            Defect.ORDER: (Defect.CONFLICT, Defect.UNDONE),
            Defect.CONFLICT: (Defect.UNDONE,),
        }.get(violation.defect, ())
        pair = set(violation.mutators)
        others = [finding.violation for finding in self.by_key.values()]
        if any(other.defect in stronger and set(other.mutators) == pair for other in others):
            return True
        # A mutator that is unsteady by itself is also unsteady in another order.
        unsteady = {Defect.NOT_DETERMINISTIC, Defect.NOT_IDEMPOTENT, Defect.REFUSES_OWN, Defect.FAILS}
        alone = {
            other.mutators[0] for other in others if other.defect in unsteady and len(other.mutators) == 1
        }
        return violation.defect is Defect.ORDER and bool(pair & alone)


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``pratique prove``."""

    mutators: tuple[Mutator, ...]
    """All mutators of the chain, in chain order."""
    acted: Mapping[Mutator, int]
    """How many objects each mutator changed."""
    findings: tuple[DefectFinding, ...]
    given: int
    """The number of given objects."""
    generated: Mapping[str, int]
    """The number of generated objects, by ``apiVersion/kind``."""
    writers: tuple[str, ...] = ()
    """The names of the writers."""
    refused: int
    """How many of these the mutating phase denied unchanged."""
    seed: int
    """The seed of the generated objects."""
    error: str = ""
    """Why the run ended early; empty if it did not."""

    @property
    def tried(self) -> int:
        """The number of objects tried."""
        return self.given + sum(self.generated.values())

    @property
    def holds(self) -> bool:
        """Whether there are no findings, and nothing went wrong."""
        return not self.findings and not self.error
