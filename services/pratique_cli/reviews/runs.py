"""Review runs: every input document through the engine, one after another, each decision written at once."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path

from pratique.admission.controllers import Phase
from pratique.admission.reviews import Deadline, Review
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.field_errors import FieldPath
from pratique.apimachinery.json_values import member
from pratique.apimachinery.source_documents import SourceDocument
from pratique.cluster.store import ObjectStore
from pratique.configuration.settings import Release
from pratique.lint.spellings import unread_spellings
from pratique_cli.exit_codes import ExitCode
from pratique_cli.outputs import Missed, Output, Reviewed, Tally
from pratique_cli.reviews.expansions import Expander, UndecidedPodError, object_path
from pratique_cli.reviews.inputs import Input, read_inputs
from pratique_cli.reviews.requests import CREATED, RequestShape, review_of, store_admitted
from pratique_cli.terminal import Progress
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.engines.engine import Engine


async def ignore_review(review: Review) -> None:
    """Tell nobody of what was admitted."""
    del review


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
    on_admitted: Callable[[Review], Awaitable[None]] = ignore_review
    """Is told of each request that was admitted, with the object as it is to be stored."""
    shape: RequestShape = CREATED
    """What manifests ask for."""
    progress: Progress = dataclasses.field(default_factory=lambda: Progress(None))
    """Shows how far the run has come."""
    warn_exit_code: int = ExitCode.ADMITTED
    """What a run ends with in which nothing went wrong but something was warned of."""
    release: Release | None = None
    """The release of Kubernetes that is followed; None: the current one."""
    expand: bool = True
    """Review the Pods that workloads would make, too."""
    _waiting: list[Reviewed | Missed] = dataclasses.field(default_factory=list, init=False)
    """What is written once the Pods that were denied have been asked for again, and what comes after it."""

    async def run(self, paths: Iterable[Path]) -> int:
        """Review every document, in the order in which they are given, and tell how it went as a whole."""
        tally = Tally()
        expander = Expander(engine=self.engine, phases=self.phases, timeout_seconds=self.timeout_seconds)
        try:
            for number, each in enumerate(_inputs(paths)):
                if isinstance(each, InputError):
                    self._pass_over(each, tally)
                else:
                    await self._review(each, number, tally, expander)
                self.progress.show(tally)
            await self._ask_again(tally, expander)
        finally:
            self.progress.clear()
        self.output.finish(tally)
        code = _exit_code(tally)
        return self.warn_exit_code if code is ExitCode.ADMITTED and tally.warned else code

    async def _review(self, document: SourceDocument, number: int, tally: Tally, expander: Expander) -> None:
        try:
            review = review_of(document, self.store, number, self.shape)
        except InputError as error:
            self._pass_over(error, tally)
            return
        self._tell_unread(document)
        try:
            review = expander.recognise(review)
            deadline = Deadline.after(self.timeout_seconds)
            decision = await self.engine.decide(review, self.phases, deadline, explain=True)
        except TimeoutError:
            problem = f"no decision within {self.timeout_seconds:g} s; --timeout allows more"
            self._give_up(document.fault((), problem), review, tally)
            return
        tally.count(allowed=decision.allowed)
        expander.note(review, decision)
        await self._expand(Reviewed(document, review, decision), number, tally, expander)
        if decision.allowed:
            await self.on_admitted(review.with_object(decision.object_document))
        try:
            store_admitted(review, decision, self.store, self.shape)
        except InputError as error:
            self.complain(str(document.fault((), f"later reviews will not see it: {error}")))

    def _tell_unread(self, document: SourceDocument) -> None:
        """Warn of what the release that is followed does not read, whoever believes that it does."""
        start = ("request", "object") if document.data.get("kind") == "AdmissionReview" else ()
        for path, problem in unread_spellings(member(document.data, *start), self.release):
            self.complain(str(document.fault((*start, *path), f"warning: {FieldPath(path)}: {problem}")))

    def _pass_over(self, error: InputError, tally: Tally) -> None:
        self.complain(str(error))
        tally.unreadable += 1
        self._tell(Missed(error))

    def _give_up(self, error: InputError, review: Review, tally: Tally) -> None:
        self.complain(str(error))
        tally.undecided += 1
        self._tell(Missed(error, review))

    async def _expand(self, reviewed: Reviewed, number: int, tally: Tally, expander: Expander) -> None:
        if self.expand:
            try:
                reviewed = await expander.expand(reviewed, number)
            except UndecidedPodError as error:
                self._settle(reviewed, tally)
                self._without_pod(reviewed, error, tally)
                return
        if not _may_be_retried(reviewed):
            self._settle(reviewed, tally)
            return
        # Its controller would ask again, and by then what comes later in the input may be there.
        self._waiting.append(reviewed)

    async def _ask_again(self, tally: Tally, expander: Expander) -> None:
        """Ask again for the Pods that were denied, now that all is there, and write what waits for that."""
        waiting = list(self._waiting)
        self._waiting.clear()
        for each in waiting:
            if isinstance(each, Reviewed) and _may_be_retried(each):
                await self._expand_again(each, tally, expander)
            else:
                self._tell(each)

    async def _expand_again(self, reviewed: Reviewed, tally: Tally, expander: Expander) -> None:
        try:
            self._settle(await expander.again(reviewed), tally)
        except UndecidedPodError as error:
            self._settle(reviewed, tally)
            self._without_pod(reviewed, error, tally)

    def _settle(self, reviewed: Reviewed, tally: Tally) -> None:
        """Count and write what is not going to change."""
        tally.warned += _has_warnings(reviewed.decision)
        tally.pods_denied += _pods_denied(reviewed)
        self._tell(reviewed)

    def _without_pod(self, reviewed: Reviewed, undecided: UndecidedPodError, tally: Tally) -> None:
        problem = f"no decision on its Pods within {self.timeout_seconds:g} s; --timeout allows more"
        path = (*object_path(reviewed), *undecided.made.template)
        self._give_up(reviewed.document.fault(path, problem), undecided.review, tally)

    def _tell(self, told: Reviewed | Missed) -> None:
        """Write it, in its turn."""
        if self._waiting:
            self._waiting.append(told)
        elif isinstance(told, Reviewed):
            self.output.write(told)
        else:
            self.output.miss(told)


def _pods_denied(reviewed: Reviewed) -> int:
    return sum(not pod.allowed for pod in reviewed.decision.expanded)


_MISSING = re.compile(r"\b(?:not|was) found\b")
"""How controllers say that something is not there which may come later in the input: an account, a PriorityClass."""


def _may_be_retried(reviewed: Reviewed) -> bool:
    """Tell whether what comes later may put a Pod's denial right.

    Manifests are one whole; recorded reviews are each a moment of their own.
    """
    if reviewed.document.data.get("kind") == "AdmissionReview":
        return False
    denials = (pod.status.message for pod in reviewed.decision.expanded if pod.status is not None)
    return any(_MISSING.search(message) for message in denials)


def _inputs(paths: Iterable[Path]) -> Iterator[Input]:
    for path in paths:
        yield from read_inputs(path)


def _has_warnings(decision: Decision) -> bool:
    return bool(decision.warnings) or any(_has_warnings(each) for each in decision.expanded)


def _exit_code(tally: Tally) -> ExitCode:
    """Of several codes that apply, the highest: a run that missed something must not look complete."""
    if tally.undecided:
        return ExitCode.BROKEN
    if tally.unreadable:
        return ExitCode.BAD_INPUT
    return ExitCode.DENIED if tally.denied or tally.pods_denied else ExitCode.ADMITTED
