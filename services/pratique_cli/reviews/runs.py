"""Running a review: every input document goes through the engine in order, and each decision is written at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

import msgspec

from pratique.admission.controllers import Phase
from pratique.admission.reviews import Deadline, Review
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.field_errors import FieldPath
from pratique.apimachinery.json_values import member
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.source_documents import SourceDocument
from pratique.cluster.store import ObjectStore
from pratique.configuration.settings import Release
from pratique.lint.spellings import unread_spellings
from pratique_cli.exit_codes import ExitCode
from pratique_cli.extras import missing_extra
from pratique_cli.loading import EXCLUDE_HINT
from pratique_cli.outputs import ReviewCounts, ReviewedDocument, ReviewOutput, UndecidedDocument
from pratique_cli.progress import Progress
from pratique_cli.reviews.expansions import Expander, UndecidedPodError, object_path
from pratique_cli.reviews.inputs import Input
from pratique_cli.reviews.requests import CREATED, RequestShape, review_of, store_admitted
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.engines.engine import Engine


async def ignore_review(review: Review) -> None:
    """Ignore an admitted review."""
    del review


class ReviewRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of ``pratique review``."""

    engine: Engine
    """The engine that decides."""
    store: ObjectStore
    """The objects that the engine looks up; admitted objects are added."""
    phases: frozenset[Phase]
    """The phases of each review."""
    timeout_seconds: float
    """The time limit of each review."""
    output: ReviewOutput
    """Writes the decisions."""
    report_problem: Callable[[str], None]
    """Prints a problem, one line."""
    on_admitted: Callable[[Review], Awaitable[None]] = ignore_review
    """Called for each admitted request, with the object to be stored."""
    shape: RequestShape = CREATED
    """The request of manifests."""
    progress: Progress = msgspec.field(default_factory=lambda: Progress(None))
    """Shows the progress of the run."""
    warn_exit_code: int = ExitCode.ADMITTED
    """The exit code if there were only warnings."""
    release: Release | None = None
    """The Kubernetes release to follow; None means the current one."""
    expand: bool = True
    """Whether to review the Pods of workloads, too."""
    reads_folders: bool = False
    """Whether unreadable documents may lie in folders, where nobody named their files."""
    _waiting: list[ReviewedDocument | UndecidedDocument] = msgspec.field(default_factory=list)
    """Results from the first retried document on, which are written in order after the retries."""

    async def run(self, inputs: Iterable[Input]) -> int:
        """Review all documents in order, and return the exit code of the run."""
        counts = ReviewCounts()
        expander = Expander(engine=self.engine, phases=self.phases, timeout_seconds=self.timeout_seconds)
        try:
            for number, document in enumerate(inputs):
                if isinstance(document, InputError):
                    self._report_unreadable(document, counts)
                else:
                    await self._review(document, number, counts, expander)
                self.progress.show_counts(counts)
            await self._retry_pods(counts, expander)
        finally:
            self.progress.clear()
        self.output.finish(counts)
        if counts.unreadable and self.reads_folders:
            self.report_problem(EXCLUDE_HINT)
        code = _exit_code(counts)
        return self.warn_exit_code if code is ExitCode.ADMITTED and counts.warned else code

    async def _review(
        self, document: SourceDocument, number: int, counts: ReviewCounts, expander: Expander
    ) -> None:
        try:
            review = review_of(document, self.store, number, self.shape)
        except InputError as error:
            self._report_unreadable(error, counts)
            return
        self._warn_of_duplicates(document)
        self._warn_of_spellings(document)
        try:
            review = expander.mark_charged(review)
            deadline = Deadline.after(self.timeout_seconds)
            decision = await self.engine.decide(review, self.phases, deadline, explain=True)
        except TimeoutError:
            problem = f"no decision within {self.timeout_seconds:g} s; --timeout allows more"
            self._report_undecided(document.fault((), problem), review, counts)
            return
        except ModuleNotFoundError as error:
            if not (problem := missing_extra(error)):
                raise
            self._report_unreadable(document.fault((), problem), counts)
            return
        counts.count(allowed=decision.allowed)
        expander.remember_pod(review, decision)
        await self._expand(ReviewedDocument(document, review, decision), number, counts, expander)
        if decision.allowed:
            await self.on_admitted(review.with_object(decision.object_document))
        try:
            store_admitted(review, decision, self.store, self.shape)
        except InputError as error:
            self.report_problem(str(document.fault((), f"later reviews will not see it: {error}")))

    def _warn_of_duplicates(self, document: SourceDocument) -> None:
        """Warn about fields that a manifest has twice: ``kubectl`` sends the last one, and says nothing."""
        for path, place in document.duplicates:
            problem = f'warning: duplicate field "{FieldPath(path)}": the last one counts'
            self.report_problem(str(document.fault(path, problem, place)))

    def _warn_of_spellings(self, document: SourceDocument) -> None:
        """Warn about spellings that the release does not read."""
        start = ("request", "object") if document.data.get("kind") == "AdmissionReview" else ()
        for path, problem in unread_spellings(member(document.data, *start), self.release):
            self.report_problem(
                str(document.fault((*start, *path), f"warning: {FieldPath(path)}: {problem}"))
            )

    def _report_unreadable(self, error: InputError, counts: ReviewCounts) -> None:
        self.report_problem(str(error))
        counts.unreadable += 1
        self._emit(UndecidedDocument(error))

    def _report_undecided(self, error: InputError, review: Review, counts: ReviewCounts) -> None:
        self.report_problem(str(error))
        counts.undecided += 1
        self._emit(UndecidedDocument(error, review))

    async def _expand(
        self, reviewed: ReviewedDocument, number: int, counts: ReviewCounts, expander: Expander
    ) -> None:
        if self.expand:
            try:
                reviewed = await expander.expand(reviewed, number)
            except UndecidedPodError as error:
                self._settle(reviewed, counts)
                self._report_undecided_pod(reviewed, error, counts)
                return
        if not _may_be_retried(reviewed):
            self._settle(reviewed, counts)
            return
        # Its controller would retry, and by then later documents of the input may exist.
        self._waiting.append(reviewed)

    async def _retry_pods(self, counts: ReviewCounts, expander: Expander) -> None:
        """Review denied Pods again, now that all documents exist, and write the waiting results."""
        waiting = list(self._waiting)
        self._waiting.clear()
        for result in waiting:
            if isinstance(result, ReviewedDocument) and _may_be_retried(result):
                await self._retry_pod(result, counts, expander)
            else:
                self._emit(result)

    async def _retry_pod(self, reviewed: ReviewedDocument, counts: ReviewCounts, expander: Expander) -> None:
        try:
            self._settle(await expander.retry(reviewed), counts)
        except UndecidedPodError as error:
            self._settle(reviewed, counts)
            self._report_undecided_pod(reviewed, error, counts)

    def _settle(self, reviewed: ReviewedDocument, counts: ReviewCounts) -> None:
        """Count and write a final result."""
        counts.warned += _has_warnings(reviewed.decision)
        counts.pods += len(reviewed.decision.expanded)
        counts.pods_denied += _pods_denied(reviewed)
        self._emit(reviewed)

    def _report_undecided_pod(
        self, reviewed: ReviewedDocument, undecided: UndecidedPodError, counts: ReviewCounts
    ) -> None:
        problem = f"no decision on its Pods within {self.timeout_seconds:g} s; --timeout allows more"
        path = (*object_path(reviewed), *undecided.workload_pod.template)
        self._report_undecided(reviewed.document.fault(path, problem), undecided.review, counts)

    def _emit(self, result: ReviewedDocument | UndecidedDocument) -> None:
        """Write a result, or queue it behind those that wait."""
        if self._waiting:
            self._waiting.append(result)
        elif isinstance(result, ReviewedDocument):
            self.output.write(result)
        else:
            self.output.write_problem(result)


def _pods_denied(reviewed: ReviewedDocument) -> int:
    return sum(not pod.allowed for pod in reviewed.decision.expanded)


_MISSING = pattern(r"\b(?:not|was) found\b")
"""How controllers say that an object is missing, such as a ServiceAccount, which may come later in the input."""


def _may_be_retried(reviewed: ReviewedDocument) -> bool:
    """Whether a later document may fix the denial of a Pod.

    That applies to manifests, which belong together, but not to recorded reviews.
    """
    if reviewed.document.data.get("kind") == "AdmissionReview":
        return False
    denials = (pod.status.message for pod in reviewed.decision.expanded if pod.status is not None)
    return any(_MISSING.search(message) for message in denials)


def _has_warnings(decision: Decision) -> bool:
    return bool(decision.warnings) or any(_has_warnings(pod) for pod in decision.expanded)


def _exit_code(counts: ReviewCounts) -> ExitCode:
    """The highest of the codes that apply, so that an incomplete run does not look complete."""
    if counts.undecided:
        return ExitCode.BROKEN
    if counts.unreadable:
        return ExitCode.BAD_INPUT
    return ExitCode.DENIED if counts.denied or counts.pods_denied else ExitCode.ADMITTED
