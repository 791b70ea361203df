"""Running all checks with all objects, and reducing the objects of findings."""

from __future__ import annotations

import asyncio
import collections
import functools
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from pratique.admission.results import OutcomeStatus as StepOutcome
from pratique.admission.reviews import Review
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.kinds import kind_of
from pratique.cluster.schemas import ListType, MapType, Structure, Type, schema_of
from pratique.cluster.store import ObjectStore
from pratique_cli.mutator_checks.cases import MutatorCase
from pratique_cli.mutator_checks.checks import (
    LaterCheck,
    PairCheck,
    PermutationCheck,
    SetCheck,
    SingleMutatorCheck,
    ValidatorCheck,
    mutators_with_outcome,
)
from pratique_cli.mutator_checks.defects import CheckReport, DefectFinding, DefectFindings, MutatorDefect
from pratique_cli.mutator_checks.generation import (
    GeneratedKind,
    Vocabulary,
    gather_vocabulary,
    generate_objects,
    kinds_for,
    smallest,
)
from pratique_cli.mutator_checks.mutator_runs import MutatorRun, MutatorRunner, UnansweredError
from pratique_cli.mutator_checks.writers import Writer, WriterCheck
from pratique_cli.outputs.changes import ObjectPath
from pratique_cli.progress import Progress

if TYPE_CHECKING:
    from pratique_frontdoor.engines.mutator_sets import Mutator

REDUCTION_ATTEMPTS = 400
"""How many smaller objects to try: a Pod with 100 members takes two rounds of about 100."""

_REQUIRED_PATHS = frozenset(
    {("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace"), ("spec",)}
)
"""The paths that identify the object. The namespace stays, because controllers look it up."""


class Reduction(msgspec.Struct):
    """Reduces one object, as long as it shows a defect."""

    shows: Callable[[JSONObject], Awaitable[bool]]
    """Whether an object still shows the defect."""
    schema: Structure | None
    """The schema of the object's kind; None if it has none."""
    trials: int = REDUCTION_ATTEMPTS
    """How many objects may still be tried."""

    async def reduce(self, document: JSONObject) -> JSONObject:
        """Remove fields and items until nothing more can be removed."""
        while True:
            smaller = await self._round(document)
            if smaller is document:
                return document
            document = smaller

    async def _round(self, document: JSONObject) -> JSONObject:
        for path in list(_paths(document, self.schema)):
            # A path is gone if its parent was removed; list items are removed from the end.
            if member(document, *path[:-1]) is None or not _exists(document, path):
                continue
            if self.trials <= 0:
                return document
            self.trials -= 1
            without = _without(document, path)
            if await self.shows(without):
                document = without
        return document


def _paths(value: JSON, type_: Type | None, path: ObjectPath = ()) -> Iterator[ObjectPath]:
    """Yield the removable paths, parents before children, and list items from the end."""
    steps: list[str | int] = []
    if isinstance(value, dict):
        steps = list(value)
    elif isinstance(value, list):
        steps = list(reversed(range(len(value))))
    for step in steps:
        if (*path, step) not in _REQUIRED_PATHS and not _is_required(value, type_, step):
            yield (*path, step)
    for step in steps:
        yield from _paths(value[step], _type_of(type_, step), (*path, step))


def _is_required(value: JSON, type_: Type | None, step: str | int) -> bool:
    if isinstance(type_, Structure):
        return step in type_.required
    # ``containers`` must not be empty; other lists are removed as a whole.
    return isinstance(value, list) and len(value) == 1


def _type_of(type_: Type | None, step: str | int) -> Type | None:
    if isinstance(type_, Structure):
        return type_.fields.get(str(step))
    if isinstance(type_, ListType):
        return type_.items
    return type_.values if isinstance(type_, MapType) else None


def _exists(document: JSONObject, path: ObjectPath) -> bool:
    parent = member(document, *path[:-1])
    step = path[-1]
    if isinstance(parent, list):
        return isinstance(step, int) and step < len(parent) and len(parent) > 1
    return isinstance(parent, dict) and step in parent


def _without(value: JSON, path: ObjectPath) -> JSON:
    step, *rest = path
    if isinstance(value, list):
        at = int(step)
        kept = [_without(value[at], tuple(rest))] if rest else []
        return [*value[:at], *kept, *value[at + 1 :]]
    if not rest:
        return {key: item for key, item in value.items() if key != step}
    return {key: _without(item, tuple(rest)) if key == step else item for key, item in value.items()}


_LATER_SECONDS = 1.1
"""Long enough for values derived from the time in seconds to change."""
_LATER_OBJECTS = 3
"""How many objects of each mutator to check for that."""
_ALL_ORDERS = 5
"""The most mutators to try in all orders, of which five have 120."""
_SAMPLED_ORDERS = 4
"""How many orders to try with each further object that the same mutators change."""


class _ChangedCase(msgspec.Struct, frozen=True):
    """A change that a mutator made, and its time."""

    case: MutatorCase
    review: Review
    outcome: MutatorRun
    at: float


class MutatorCheckRun(msgspec.Struct, kw_only=True):
    """One run of ``pratique prove``."""

    runner: MutatorRunner
    """Runs the mutators."""
    store: ObjectStore
    """The objects that they look up."""
    loop: asyncio.Runner
    """The event loop of ``bench``."""
    seed: int = 0
    """The seed of the generated objects."""
    examples: int = 100
    """How many objects to generate for each kind."""
    dry_run: bool = True
    """Whether requests are dry runs."""
    writers: Sequence[Writer] = ()
    """What else writes the objects."""
    later_seconds: float = _LATER_SECONDS
    """After how many seconds to repeat mutators that may depend on the clock."""
    progress: Progress = msgspec.field(default_factory=lambda: Progress(None))
    """Shows how many objects were tried, and how many findings there are."""
    _findings: DefectFindings = msgspec.field(default_factory=DefectFindings)
    _acted: collections.Counter[Mutator] = msgspec.field(default_factory=collections.Counter)
    _later: dict[Mutator, list[_ChangedCase]] = msgspec.field(default_factory=dict)
    _generated: collections.Counter[str] = msgspec.field(default_factory=collections.Counter)
    _orders_tried: collections.Counter[tuple[Mutator, ...]] = msgspec.field(
        default_factory=collections.Counter
    )
    _written: list[JSON] = msgspec.field(default_factory=list)
    _refused: int = 0
    _tried: int = 0

    @property
    def mutators(self) -> tuple[Mutator, ...]:
        """All mutators of the chain, in chain order."""
        return self.runner.mutators.mutators

    def run(self, given: Sequence[MutatorCase]) -> CheckReport:
        """Check given objects, then generated ones, and reduce the objects of findings."""
        unanswered, tried = "", 0
        try:
            for case in given:
                self._await(self._check_object(case, case.review()))
                tried += 1
            self._make_objects(given)
            self._await(self._check_later())
            self._await(self._reduce_all())
        except UnansweredError as error:
            unanswered = str(error)
        return CheckReport(
            mutators=self.mutators,
            acted=self._acted,
            findings=tuple(self._findings),
            given=tried,
            generated=self._generated,
            writers=tuple(writer.name for writer in self.writers),
            refused=self._refused,
            seed=self.seed,
            error=unanswered,
        )

    def _await(self, work: Coroutine[Any, Any, None]) -> None:
        self.loop.run(work)

    async def _check_object(self, case: MutatorCase, review: Review) -> None:
        """Run all checks with one object."""
        whole = await self.runner.mutate(review)
        found: list[MutatorDefect] = []
        active = set(mutators_with_outcome(whole.decision, self.mutators, StepOutcome.MUTATED))
        for mutator in self.mutators:
            outcome = await self.runner.mutate(review, (mutator,))
            if outcome.changed or outcome.failure:
                active.add(mutator)
                self._remember(mutator, case, review, outcome)
                found += await SingleMutatorCheck(mutator).find_defects_after(self.runner, review, outcome)
        self._acted.update(active)
        together = await SetCheck(self.mutators).find_defects(self.runner, review)
        self._refused += not whole.allowed and not together
        found += together
        if whole.allowed and whole.changed:
            self._written.append(whole.object)
            found += await ValidatorCheck(self.mutators).find_defects(self.runner, review)
        for writer in self.writers:
            found += await WriterCheck(self.mutators, writer).find_defects(self.runner, review)
        found += await self._orders([mutator for mutator in self.mutators if mutator in active], review)
        self._findings.add(found, case)
        self._tried += 1
        self.progress.advance()
        self.progress.update(f"{self._tried} tried, {len(self._findings.by_key)} found")

    async def _orders(self, active: Sequence[Mutator], review: Review) -> list[MutatorDefect]:
        """Check the orders of active mutators without a fixed place in the chain."""
        free = tuple(mutator for mutator in active if not mutator.placed)
        found: list[MutatorDefect] = []
        for first, second in itertools.combinations(free, 2):
            found += await PairCheck(first, second).find_defects(self.runner, review)
        if not found and 2 < len(free) <= _ALL_ORDERS:
            found += await PermutationCheck((free, *self._permutations(free))).find_defects(
                self.runner, review
            )
        return found

    def _permutations(self, mutators: tuple[Mutator, ...]) -> list[tuple[Mutator, ...]]:
        """All orders for the first objects that these mutators change, a sample for later ones."""
        every = list(itertools.permutations(mutators))[1:]
        self._orders_tried[mutators] += 1
        if self._orders_tried[mutators] <= _LATER_OBJECTS:
            return every
        chance = random.Random(f"{self.seed}/{self._orders_tried[mutators]}")  # noqa: S311 - nothing secret
        return chance.sample(every, min(_SAMPLED_ORDERS, len(every)))

    def _remember(self, mutator: Mutator, case: MutatorCase, review: Review, outcome: MutatorRun) -> None:
        if mutator.placed or mutator.controller == "MutatingAdmissionPolicy":
            return  # CEL has no clock, and built-in mutators do not use one
        kept = self._later.setdefault(mutator, [])
        if len(kept) < _LATER_OBJECTS and outcome.allowed:
            kept.append(_ChangedCase(case, review, outcome, time.monotonic()))

    async def _check_later(self) -> None:
        """Repeat some mutators a moment later."""
        for mutator, kept in self._later.items():
            check = LaterCheck(mutator, self.later_seconds)
            for changed in kept:
                await asyncio.sleep(max(0.0, changed.at + self.later_seconds - time.monotonic()))
                found = await check.compare(self.runner, changed.review, changed.outcome)
                self._findings.add(found, changed.case, counted=True)

    def _make_objects(self, given: Sequence[MutatorCase]) -> None:
        kinds = kinds_for(self.mutators, self.store, (kind_of(case.document) for case in given))
        self.progress.expect(len(given) + len(kinds) * self.examples)
        if self.examples < 1:
            return
        for kind in kinds:
            self._visit(kind, smallest(kind))
        words = self._words(given)
        for kind in kinds if self.examples > 1 else ():
            visit = functools.partial(self._visit, kind)
            generate_objects(kind, words, seed=self.seed, examples=self.examples - 1, visit=visit)

    def _words(self, given: Sequence[MutatorCase]) -> Vocabulary:
        configurations = self.runner.mutators.configurations
        written = (
            configured.source.data
            for field in configurations.__struct_fields__
            for configured in getattr(configurations, field)
            if configured.source is not None
        )
        objects = [*(case.document for case in given), *self._written]
        return gather_vocabulary(
            written,
            objects,
            (configured.handler for configured in self.mutators if configured.handler is not None),
        )

    def _visit(self, kind: GeneratedKind, document: JSONObject) -> None:
        case = MutatorCase(document, self.store, self.dry_run, kind.operation)
        try:
            review = case.review()
        except InputError:
            return  # the schema allows objects that the API server cannot decode
        self._await(self._check_object(case, review))
        self._generated[f"{kind.kind.api_version}/{kind.kind.kind}"] += 1

    async def _reduce_all(self) -> None:
        for finding in self._findings:
            await self._reduce(finding)

    async def _reduce(self, finding: DefectFinding) -> None:
        """Reduce the object of a finding, and update the finding accordingly."""
        check = finding.violation.check
        quick = check.mutator if isinstance(check, LaterCheck) else None

        async def shows(document: JSONObject) -> bool:
            return await self._reproduced(finding, document, quick) is not None

        reduction = Reduction(shows, schema_of(kind_of(finding.document), self.store))
        smaller = await reduction.reduce(finding.document)
        found = await self._reproduced(finding, smaller, None)
        if found is not None:
            finding.violation, finding.document = found, smaller

    async def _reproduced(
        self, finding: DefectFinding, document: JSONObject, quick: Mutator | None
    ) -> MutatorDefect | None:
        """The defect as an object shows it, or None; ``quick`` only checks whether that mutator acts at all."""
        try:
            review = finding.case.review(document)
        except InputError:
            return None
        if quick is not None:
            changed = (await self.runner.mutate(review, (quick,))).changed
            return finding.violation if changed else None
        violations = await finding.violation.check.find_defects(self.runner, review)
        return next((defect for defect in violations if defect.key == finding.key), None)
