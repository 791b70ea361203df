"""Running cases, each through its own chain."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from pratique.admission.controllers import MUTATE, Phase
from pratique.admission.reviews import Deadline, Review
from pratique.apimachinery.errors import InputError
from pratique.cluster.files import load_cluster
from pratique.cluster.store import ObjectStore
from pratique_cli.exit_codes import ExitCode
from pratique_cli.outputs import ReviewedDocument
from pratique_cli.progress import Progress
from pratique_cli.reviews.expansions import Expander
from pratique_cli.reviews.inputs import store_old
from pratique_cli.reviews.requests import RequestShape, review_of
from pratique_cli.suites.cases import (
    Case,
    CaseResult,
    CaseStatus,
    ClusterSource,
    Expectation,
    ObservedDecision,
    SuiteCounts,
)
from pratique_cli.suites.comparison import compare
from pratique_cli.suites.coverage import Coverage
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.engines.engine import Engine, open_local
from pratique_frontdoor.engines.local import LocalSources

K = TypeVar("K")
T = TypeVar("T")


class CaseChains:
    """Makes the chain of each case, with its own store, ledgers and limits."""

    def __init__(self) -> None:
        """Start with empty caches."""
        self._sources: dict[str, LocalSources | InputError] = {}
        self._stores: dict[ClusterSource | None, ObjectStore | InputError] = {}

    def sources(self, case: Case) -> LocalSources:
        """Read the files that the settings of a case name.

        Raises:
            InputError: it cannot be used.
        """
        settings = case.settings
        # Settings contain a mapping, which is not hashable.
        return _cached(self._sources, repr(settings), lambda: LocalSources.read(settings))

    def store(self, case: Case) -> ObjectStore:
        """Make the store of a case.

        Raises:
            InputError: it cannot be used.
        """
        source = case.cluster
        return _cached(self._stores, source, lambda: _load(source)).copy()

    def engine(self, case: Case, store: ObjectStore) -> Engine:
        """Make the chain of a case; the caller closes it.

        Raises:
            InputError: the settings cannot be used.
        """
        return open_local(case.settings, store, self.sources(case), tells_places=True)


def _cached(read: dict[K, T | InputError], key: K, make: Callable[[], T]) -> T:
    """Make a value once per key, and remember failures."""
    if key not in read:
        try:
            read[key] = make()
        except InputError as error:
            read[key] = error
    found = read[key]
    if isinstance(found, InputError):
        raise found
    return found


def _load(source: ClusterSource | None) -> ObjectStore:
    return load_cluster(None) if source is None else load_cluster(source.paths, source.objects)


class CaseRunner(msgspec.Struct, frozen=True):
    """Runs cases."""

    chains: CaseChains
    timeout_seconds: float
    """The time limit of each review."""

    async def run(self, case: Case) -> CaseResult:
        """Run one case, independently of others."""
        begun = time.perf_counter()
        try:
            observed = await self._observe(case)
        except InputError as error:
            return CaseResult(case, CaseStatus.UNREADABLE, error=_located_error(error, case))
        except TimeoutError:
            problem = f"no decision within {self.timeout_seconds:g} s; --timeout allows more"
            return CaseResult(
                case, CaseStatus.UNDECIDED, time.perf_counter() - begun, error=case.fault(problem)
            )
        mismatches = compare(case.expect, observed)
        status = CaseStatus.FAILED if mismatches else CaseStatus.PASSED
        return CaseResult(case, status, time.perf_counter() - begun, mismatches, observed=observed)

    async def _observe(self, case: Case) -> ObservedDecision:
        store = self.chains.store(case)
        review = review_of(case.submitted, store, 0, _request_shape(case, store))
        engine = self.chains.engine(case, store)
        try:
            decision = await self._decide(engine, review, case.phases)
            pods = await self._pods(engine, case, review, decision)
            return await self._repeat(engine, case.expect, ObservedDecision(review, decision, pods=pods))
        finally:
            await engine.close()

    async def _decide(self, engine: Engine, review: Review, phases: frozenset[Phase]) -> Decision:
        return await engine.decide(review, phases, Deadline.after(self.timeout_seconds), explain=True)

    async def _pods(
        self, engine: Engine, case: Case, review: Review, decision: Decision
    ) -> tuple[ObservedDecision, ...]:
        """Review the Pods of the workload, if the case expects something about them."""
        expected = case.expect.expanded
        if expected is None:
            return ()
        expander = Expander(engine=engine, phases=case.phases, timeout_seconds=self.timeout_seconds)
        reviewed = await expander.expand(ReviewedDocument(case.submitted, review, decision), 0)
        pods = [ObservedDecision(pod.review, pod.decision) for pod in reviewed.expanded]
        further = [
            await self._repeat(engine, expectation, pod)
            for expectation, pod in zip(expected, pods, strict=False)
        ]
        return (*further, *pods[len(further) :])

    async def _repeat(
        self, engine: Engine, expected: Expectation, observed: ObservedDecision
    ) -> ObservedDecision:
        """Run the mutating phase again on the resulting object, if the case expects something about that."""
        if expected.fixed_point is None:
            return observed
        review = observed.review.with_object(observed.decision.object_document)
        return msgspec.structs.replace(observed, repeated=await self._decide(engine, review, MUTATE))


def _located_error(error: InputError, case: Case) -> InputError:
    """Add the location in the suite to an error."""
    if not error.file:
        # Errors without a location concern the configuration or the cluster, which cases may share.
        return case.document.fault((), str(error))
    return error if error.file == case.document.file else case.fault(str(error))


def _request_shape(case: Case, store: ObjectStore) -> RequestShape:
    if case.old is None:
        return case.shape
    old = store_old([case.old], store.resources, case.shape.namespace)
    return msgspec.structs.replace(case.shape, old=old)


class SuiteOutput(Protocol):
    """Writes results one by one, as soon as they are known."""

    def write(self, result: CaseResult) -> None:
        """Write the result of one case, and flush it."""

    def write_problem(self, error: InputError) -> None:
        """Write that a suite or a case cannot be read, if the format has a place for that."""

    def finish(self, score: SuiteCounts, coverage: Coverage | None) -> None:
        """Write the end of the output; ``coverage`` is None if it is not wanted."""


class SuiteRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of ``pratique test``."""

    timeout_seconds: float
    """The time limit of each review."""
    output: SuiteOutput
    """Writes the results."""
    report_problem: Callable[[str], None]
    """Prints a problem, one line."""
    progress: Progress
    """Shows the progress of the run."""
    fail_fast: bool = False
    """Whether to stop at the first case that does not pass."""
    with_coverage: bool = True
    """Whether to report coverage."""
    coverage_threshold: float | None = None
    """The lowest acceptable coverage in percent; None accepts any."""
    _printed_notes: set[str] = msgspec.field(default_factory=set)
    """Problems printed so far, because many cases may share one."""

    async def run(self, cases: Sequence[Case], problems: Sequence[InputError]) -> ExitCode:
        """Run the cases, and report ``problems`` of those that could not be read."""
        score, coverage, chains = SuiteCounts(), Coverage(), CaseChains()
        for problem in problems:
            self._miss(problem, score)
        runner = CaseRunner(chains, self.timeout_seconds)
        self.progress.expect(len(cases))
        try:
            for number, case in enumerate(cases):
                result = await runner.run(case)
                self._settle(result, score)
                self._count_coverage(result, chains, coverage)
                if self.fail_fast and result.status is not CaseStatus.PASSED:
                    score.not_run = len(cases) - number - 1
                    break
        finally:
            self.progress.clear()
        self.output.finish(score, coverage if self.with_coverage else None)
        return self._exit_code(score, coverage)

    def _miss(self, problem: InputError, score: SuiteCounts) -> None:
        self.report_problem(str(problem))
        score.count(CaseStatus.UNREADABLE)
        self.output.write_problem(problem)

    def _settle(self, result: CaseResult, score: SuiteCounts) -> None:
        text = str(result.error or "")
        if text and text not in self._printed_notes:
            self._printed_notes.add(text)
            self.report_problem(text)
        score.count(result.status)
        self.output.write(result)
        self.progress.advance()
        self.progress.update(f"{score.run} run, {score.failed} failed")

    def _count_coverage(self, result: CaseResult, chains: CaseChains, coverage: Coverage) -> None:
        if result.status is CaseStatus.UNREADABLE:
            return
        configurations = chains.sources(result.case).configurations
        coverage.add(configurations)
        for decision in result.observed.decisions if result.observed else ():
            coverage.count(configurations, decision)

    def _exit_code(self, score: SuiteCounts, coverage: Coverage) -> ExitCode:
        """The highest of the codes that apply, so that an incomplete run does not look complete."""
        if score.undecided:
            return ExitCode.BROKEN
        if score.unreadable:
            return ExitCode.BAD_INPUT
        wanted = self.coverage_threshold
        if wanted is not None and coverage.percent < wanted:
            self.report_problem(f"coverage is {coverage.percent:.1f} %, but must be at least {wanted:g} %")
            return ExitCode.DENIED
        return ExitCode.DENIED if score.failed else ExitCode.ADMITTED
