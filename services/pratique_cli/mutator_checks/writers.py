"""Writers: what else writes objects in a cluster, such as GitOps and operators, and whether that ends.

A mutator may set a field that somebody else sets, too. Each then undoes the other for as long as the object exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pratique.admission.results import OutcomeStatus as StepOutcome
from pratique.admission.reviews import Review
from pratique.apimachinery.diff import identical
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import Document, JSONObject, member
from pratique.apimachinery.kinds import kind_of
from pratique.apimachinery.requests import Operation
from pratique.cluster.apply_configurations import UnidentifiedItemError
from pratique.cluster.schemas import Scalar, Type, schema_of
from pratique.cluster.store import Cluster
from pratique.cluster.structured_merge import merge
from pratique_cli.mutator_checks.checks import evidence_of, mutators_with_outcome
from pratique_cli.mutator_checks.defects import (
    Defect,
    MutatorDefect,
    RunEvidence,
    changed_values,
)
from pratique_cli.mutator_checks.mutator_runs import MAX_RUNS, MutatorRun, MutatorRunner
from pratique_cli.outputs.changes import ObjectPath, path_text
from pratique_cli.reviews.inputs import read_inputs

if TYPE_CHECKING:
    from pratique_frontdoor.engines.mutator_sets import Mutator

APPLY, REPLACE = "apply", "replace"
_OPTIONS = {True: "UpdateOptions", False: "PatchOptions"}


class Writer(msgspec.Struct, frozen=True):
    """Something that writes objects again after they were admitted."""

    name: str
    """The name for display."""
    parts: tuple[JSONObject, ...] = ()
    """What it applies, by kind, and by name if they have one; empty for the object as it was before it was mutated."""
    replaces: bool = False
    """Whether it replaces the object, instead of applying fields to it."""

    def write(self, given: JSONObject, stored: JSONObject, cluster: Cluster) -> JSONObject:
        """Return what it makes of a stored object; ``given`` is the object before it was mutated.

        It applies as the API server does, by force: lists are merged by the keys of their items, and nothing is
        removed. Lists of a kind without a schema are replaced as a whole.
        """
        if self.replaces:
            return given
        schema = schema_of(kind_of(stored), cluster) or Scalar.ANY
        for part in self.parts or (given,):
            if _concerns(part, stored):
                stored = _applied(schema, stored, part)
        return stored


def _applied(schema: Type, stored: JSONObject, part: JSONObject) -> JSONObject:
    try:
        merged: JSONObject = merge(schema, stored, part).value
    except UnidentifiedItemError:
        return stored  # an API server refuses to apply this
    return merged


def _concerns(part: JSONObject, stored: JSONObject) -> bool:
    if kind_of(part) != kind_of(stored):
        return False
    named = ((field, member(part, "metadata", field)) for field in ("name", "namespace"))
    return all(value in {None, member(stored, "metadata", field)} for field, value in named)


def read_writers(values: Iterable[str]) -> tuple[Writer, ...]:
    """Read the values of ``--writer``: ``apply``, ``replace``, or a file of partial objects.

    Raises:
        InputError: a file cannot be read, or holds something else.
    """
    return tuple(_read_writer(value) for value in values)


def _read_writer(value: str) -> Writer:
    if value in {APPLY, REPLACE}:
        return Writer(value, replaces=value == REPLACE)
    parts = []
    for document in read_inputs(value):
        if isinstance(document, InputError):
            raise document
        for field in ("apiVersion", "kind"):
            if not isinstance(document.data.get(field), str):
                raise document.fault(
                    (), f"has no {field}: a writer's file has objects with the fields to apply"
                )
        parts.append(document.data)
    if not parts:
        raise InputError(f"{value}: has no objects: a writer's file has the fields that it applies")
    return Writer(Path(value).stem, tuple(parts))


class WriterCheck(msgspec.Struct, frozen=True):
    """Checks whether mutators and a writer come to rest on one object, and whether the mutations outlive the writer."""

    mutators: tuple[Mutator, ...]
    """All mutators of the chain, in chain order."""
    writer: Writer

    async def find_defects(self, runner: MutatorRunner, review: Review) -> Sequence[MutatorDefect]:
        """Create the object, then let the writer write it until it has nothing more to write."""
        first = await runner.mutate(review)
        if not first.allowed or review.subresource:
            return []
        states = [first.object]
        while not identical(written := self._written(review, states[-1]), states[-1]):
            run = await runner.mutate(self._rewritten(review, states[-1], written))
            if not run.allowed:
                return []
            before = next((at for at, old in enumerate(states) if identical(old, run.object)), None)
            if before is not None or len(states) == MAX_RUNS:
                period = 0 if before is None else len(states) - before
                return [await self._loop(runner, review, states[-1], run, period)]
            states.append(run.object)
        return await self._lost(runner, review, first, states[-1])

    def _written(self, review: Review, stored: JSONObject) -> JSONObject:
        return self.writer.write(review.object, stored, review.cluster)

    def _rewritten(self, review: Review, stored: JSONObject, written: JSONObject) -> Review:
        options = {"apiVersion": "meta.k8s.io/v1", "kind": _OPTIONS[self.writer.replaces]}
        return msgspec.structs.replace(
            review,
            operation=Operation.UPDATE,
            object_document=Document.from_data(written),
            old_object_document=Document.from_data(stored),
            options_document=Document.from_data(options),
        )

    async def _loop(
        self, runner: MutatorRunner, review: Review, stored: JSONObject, run: MutatorRun, period: int
    ) -> MutatorDefect:
        """Describe a fight that does not end, by its last write."""
        wanted, made = changed_values(stored, run.received), changed_values(run.received, run.object)
        contested = [path for path in wanted if path in made] or list(made)
        again = self._rewritten(review, stored, run.received)
        return MutatorDefect(
            defect=Defect.WRITER_LOOP,
            mutators=await self._setting(runner, again, run, contested),
            text=f"undo each other forever: {_ending(period)}",
            check=self,
            writer=self.writer.name,
            fields=tuple(dict.fromkeys(map(path_text, contested))),
            runs=(
                RunEvidence(f"{self.writer.name} writes", stored, run.received),
                evidence_of("mutators on that", run),
            ),
            period=period,
        )

    async def _lost(
        self, runner: MutatorRunner, review: Review, first: MutatorRun, rests: JSONObject
    ) -> Sequence[MutatorDefect]:
        """Find mutations that the writer has taken back, and that no mutator has made again."""
        taken_back = changed_values(first.object, rests)
        lost = [path for path in changed_values(first.received, first.object) if path in taken_back]
        if not lost:
            return []
        return [
            MutatorDefect(
                defect=Defect.WRITER_WINS,
                mutators=await self._setting(runner, review, first, lost),
                text="the writer takes the change back, and it is not made again",
                check=self,
                writer=self.writer.name,
                fields=tuple(dict.fromkeys(map(path_text, lost))),
                runs=(
                    evidence_of("mutators", first),
                    RunEvidence(f"{self.writer.name} writes, and it stays", first.object, rests),
                ),
            )
        ]

    async def _setting(
        self, runner: MutatorRunner, review: Review, run: MutatorRun, paths: Sequence[ObjectPath]
    ) -> tuple[Mutator, ...]:
        """The mutators that change one of these fields alone; all that were active if none does."""
        active = mutators_with_outcome(run.decision, self.mutators, StepOutcome.MUTATED)
        setting = []
        for mutator in active:
            alone = await runner.mutate(review, (mutator,))
            if alone.allowed and any(path in paths for path in changed_values(alone.received, alone.object)):
                setting.append(mutator)
        return tuple(setting) or active


def _ending(period: int) -> str:
    if period == 1:
        return "each write is undone within its own request"
    if period:
        return f"the object returns to the same state every {period} writes"
    return f"the object still changes after {MAX_RUNS} writes"
