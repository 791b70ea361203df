"""Defects of mutators, as one object shows them, and the fields in which two objects differ."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from pratique.apimachinery.diff import identical
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique_cli.mutator_checks.cases import MutatorCase
from pratique_cli.outputs.texts import Path, path_text

if TYPE_CHECKING:
    from pratique_cli.mutator_checks.checks import MutatorCheck
    from pratique_frontdoor.engines.mutator_sets import Mutator

_IN_ORDER = "initContainers"
"""They run one after another, so that their order is part of what they do."""

_ABSENT = object()
"""Stands for what is not there; null is a value."""


def changed_values(before: JSON, after: JSON) -> dict[Path, JSON]:
    """The single values that one object has otherwise than another, by path; None for those that it has no more."""
    changed: dict[Path, JSON] = {}
    for path, old, new in _differences(before, after, ()):
        gone = dict.fromkeys(path_ for path_, _ in _values(old, path)) if old is not _ABSENT else {}
        changed |= gone
        changed |= dict(_values(new, path)) if new is not _ABSENT else {}
    return changed


def differing_fields(first: JSON, second: JSON) -> tuple[str, ...]:
    """The fields in which two objects differ, as Kubernetes writes them; whole where one has none of it."""
    return tuple(dict.fromkeys(path_text(path) for path, _, _ in _differences(first, second, ())))


def _differences(first: JSON, second: JSON, path: Path) -> Iterator[tuple[Path, JSON, JSON]]:
    """The places where two values differ, with what is in either; what one has alone is one place."""
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
    yield from differing or [(path, first, second)]  # else they are the same items in another order


def without_order(value: JSON) -> JSON:
    """The object with lists of named items sorted by name: which sidecar stands first seldom matters to anybody."""
    if isinstance(value, dict):
        return {
            key: [without_order(each) for each in item]
            if key == _IN_ORDER and isinstance(item, list)
            else without_order(item)
            for key, item in value.items()
        }
    if not isinstance(value, list):
        return value
    items = [without_order(each) for each in value]
    return sorted(items, key=lambda item: str(item["name"])) if _are_named(value) else items


def _values(value: JSON, path: Path) -> Iterator[tuple[Path, JSON]]:
    members = _members(value, named=_are_named(value))
    if not members:
        yield path, value
        return
    for step, item in members.items():
        yield from _values(item, (*path, step))


def _members(value: JSON, *, named: bool) -> dict[str | int, JSON] | None:
    """What an object or a list holds, items by position or by name; None for single values."""
    if isinstance(value, dict):
        return dict(value)
    if not isinstance(value, list):
        return None
    return {f"name={item['name']}": item for item in value} if named else dict(enumerate(value))


def _are_named(items: JSON) -> bool:
    """Whether it is a list of which all items have different names."""
    if not isinstance(items, list):
        return False
    names = [item.get("name") if isinstance(item, dict) else None for item in items]
    return all(isinstance(name, str) for name in names) and len(set(names)) == len(names)


class Defect(enum.StrEnum):
    """What is wrong with a mutator, or with several together."""

    FAILS = "fails"
    """It comes to no decision about an object that it is meant for."""
    NOT_DETERMINISTIC = "notDeterministic"
    """Asked the same twice, it does not do the same."""
    NOT_IDEMPOTENT = "notIdempotent"
    """It changes again what it has changed."""
    REFUSES_OWN = "refusesOwnOutput"
    """It refuses what it has made."""
    NOT_SETTLED = "notSettled"
    """It changes again what all mutators together have made, though not its own outcome."""
    UNDONE = "undone"
    """Two undo each other's changes, again and again."""
    CONFLICT = "conflict"
    """Two write different values to one field."""
    ORDER = "order"
    """What comes of them depends on who is first."""
    REFUSED = "refused"
    """A validating controller refuses what was made, and would have let the object through as it came."""


@dataclasses.dataclass(frozen=True, slots=True)
class RunEvidence:
    """One of the runs that show a violation."""

    label: str
    """For people: ``first run``, ``b after a``."""
    before: JSON = dataclasses.field(repr=False)
    """The object that was given."""
    after: JSON = dataclasses.field(repr=False)
    """The object that came of it; the same one where it was refused."""
    refusal: str = ""
    """Why it was refused; empty where it was not."""


DefectKey: TypeAlias = "tuple[Defect, tuple[Mutator, ...]]"
"""What makes two violations the same finding."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MutatorDefect:
    """Something that must not be, seen on one object."""

    defect: Defect
    mutators: tuple[Mutator, ...]
    """Whose fault it is."""
    text: str
    """What happens, in one sentence."""
    check: MutatorCheck = dataclasses.field(repr=False)
    """Looks for it again."""
    fields: tuple[str, ...] = ()
    """The fields that it is about, such as ``metadata.labels.env``."""
    runs: tuple[RunEvidence, ...] = ()
    """What shows it."""
    growth: bool = False
    """Whether each further run adds something, without end."""
    period: int = 0
    """After how many runs the same object comes back; 0 where none does."""

    @property
    def key(self) -> DefectKey:
        """What makes it the same finding as another."""
        return self.defect, self.mutators


@dataclasses.dataclass(slots=True)
class DefectFinding:
    """What was found."""

    violation: MutatorDefect
    """As the object shows it."""
    case: MutatorCase
    """The object with which it was seen first."""
    document: JSONObject = dataclasses.field(repr=False)
    """The object, made as small as it can be."""
    seen: int = 1
    """With how many objects."""

    @property
    def key(self) -> DefectKey:
        """What makes it the same as another."""
        return self.violation.key


@dataclasses.dataclass(slots=True)
class DefectFindings:
    """All that was found, in the order in which it was."""

    by_key: dict[DefectKey, DefectFinding] = dataclasses.field(default_factory=dict)

    def __iter__(self) -> Iterator[DefectFinding]:
        """What is to be told: not what follows from something else that is told."""
        return (one for one in self.by_key.values() if not self._follows(one.violation))

    def add(self, violations: Iterable[MutatorDefect], case: MutatorCase, *, counted: bool = False) -> None:
        """Take down what one object shows; ``counted`` where that object has been looked at before."""
        first: dict[DefectKey, MutatorDefect] = {}
        for violation in violations:
            first.setdefault(violation.key, violation)
        for key, violation in first.items():
            if key not in self.by_key:
                self.by_key[key] = DefectFinding(violation, case, case.document)
            elif not counted:
                self.by_key[key].seen += 1

    def _follows(self, violation: MutatorDefect) -> bool:
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
class CheckReport:
    """What came of a proof."""

    mutators: tuple[Mutator, ...]
    """All of the chain, in chain order."""
    acted: Mapping[Mutator, int]
    """With how many objects each did something."""
    findings: tuple[DefectFinding, ...]
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
