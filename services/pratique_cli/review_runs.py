"""Review runs: every input document through the engine, one after another, each decision written at once."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.calls import Deadline
from pratique.errors import InputError
from pratique.source_documents import shown
from pratique_cli.exits import ExitCode
from pratique_cli.inputs import read_inputs
from pratique_cli.outputs import Reviewed, Tally
from pratique_cli.requests import remember, review_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from frontdoor.engines import Engine
    from pratique.clusters import ObjectStore
    from pratique.definitions import Phase
    from pratique.source_documents import SourceDocument
    from pratique_cli.inputs import Input
    from pratique_cli.outputs import Output


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRun:
    """One run of ``pratique review``."""

    engine: Engine
    """Decides."""
    store: ObjectStore
    """What the engine looks up; admitted objects are added to it."""
    phases: frozenset[Phase]
    """What each review goes through."""
    timeout_seconds: float
    """How long each review may take."""
    output: Output
    """Takes the decisions."""
    complain: Callable[[str], None]
    """Takes what is to be said beside them, a line each."""

    async def run(self, paths: Iterable[Path]) -> ExitCode:
        """Review every document, in the order in which they are given, and tell how it went as a whole."""
        tally = Tally()
        for number, each in enumerate(_inputs(paths)):
            if isinstance(each, InputError):
                self._pass_over(each, tally)
            else:
                await self._review(each, number, tally)
        self.output.finish(tally)
        return _exit_code(tally)

    async def _review(self, document: SourceDocument, number: int, tally: Tally) -> None:
        try:
            review = review_of(document, self.store, number)
        except InputError as error:
            self._pass_over(error, tally)
            return
        try:
            deadline = Deadline.after(self.timeout_seconds)
            decision = await self.engine.decide(review, self.phases, deadline, explain=True)
        except TimeoutError:
            problem = f"no decision within {self.timeout_seconds:g} s; --timeout allows more"
            self.complain(str(document.fault((), problem)))
            tally.undecided += 1
            return
        tally.count(allowed=decision.allowed)
        self.output.write(Reviewed(_place(document), review, decision))
        try:
            remember(review, decision, self.store)
        except InputError as error:
            self.complain(str(document.fault((), f"later reviews will not see it: {error}")))

    def _pass_over(self, error: InputError, tally: Tally) -> None:
        self.complain(str(error))
        tally.unreadable += 1


def _inputs(paths: Iterable[Path]) -> Iterator[Input]:
    for path in paths:
        yield from read_inputs(path)


def _place(document: SourceDocument) -> str:
    return f"{shown(document.file)}:{document.line}"


def _exit_code(tally: Tally) -> ExitCode:
    """Of several codes that apply, the highest: a run that missed something must not look complete."""
    if tally.undecided:
        return ExitCode.BROKEN
    if tally.unreadable:
        return ExitCode.BAD_INPUT
    return ExitCode.DENIED if tally.denied else ExitCode.ADMITTED
