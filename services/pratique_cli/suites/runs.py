"""Runs: all cases of all suites, one after another, each told as soon as it is there."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

from pratique_cli.exits import ExitCode
from pratique_cli.suites.chains import Chains
from pratique_cli.suites.coverages import Coverage
from pratique_cli.suites.results import Ending, Score
from pratique_cli.suites.running import CaseRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pratique.errors import InputError
    from pratique_cli.progresses import Progress
    from pratique_cli.suites.cases import Case
    from pratique_cli.suites.results import Result


class SuiteOutput(Protocol):
    """Writes results one by one, each as soon as it is there."""

    def write(self, result: Result) -> None:
        """Write what became of one case, and let it reach the reader."""

    def miss(self, error: InputError) -> None:
        """Write that a suite or a case cannot be read, where the format has a place for it."""

    def finish(self, score: Score, coverage: Coverage | None) -> None:
        """Write what comes after the last result; ``coverage`` where somebody wants to know it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SuiteRun:
    """One run of ``pratique test``."""

    timeout_seconds: float
    """How long each review may take."""
    output: SuiteOutput
    """Takes the results."""
    complain: Callable[[str], None]
    """Takes what is to be said beside them, a line each."""
    progress: Progress
    """Shows how far the run has come."""
    fail_fast: bool = False
    """Leave the rest out once a case has not passed."""
    with_coverage: bool = True
    """Tell what of the configuration was put to use."""
    coverage_threshold: float | None = None
    """How much of it has to be, of 100; None where it does not matter."""
    _told: set[str] = dataclasses.field(default_factory=set, init=False)
    """Complaints that have been made: many cases may name what cannot be used."""

    async def run(self, cases: Sequence[Case], problems: Sequence[InputError]) -> ExitCode:
        """Run cases, and tell of ``problems`` that others could not be read."""
        score, coverage, chains = Score(), Coverage(), Chains()
        for problem in problems:
            self._miss(problem, score)
        runner = CaseRunner(chains, self.timeout_seconds)
        try:
            for number, case in enumerate(cases):
                result = await runner.run(case)
                self._settle(result, score)
                self._cover(result, chains, coverage)
                if self.fail_fast and result.ending is not Ending.PASSED:
                    score.left = len(cases) - number - 1
                    break
        finally:
            self.progress.clear()
        self.output.finish(score, coverage if self.with_coverage else None)
        return self._exit_code(score, coverage)

    def _miss(self, problem: InputError, score: Score) -> None:
        self.complain(str(problem))
        score.count(Ending.UNREADABLE)
        self.output.miss(problem)

    def _settle(self, result: Result, score: Score) -> None:
        text = str(result.error or "")
        if text and text not in self._told:
            self._told.add(text)
            self.complain(text)
        score.count(result.ending)
        self.output.write(result)
        self.progress.tell(f"{score.run} run, {score.failed} failed")

    def _cover(self, result: Result, chains: Chains, coverage: Coverage) -> None:
        if result.ending is Ending.UNREADABLE:
            return
        configurations = chains.sources(result.case).configurations
        coverage.add(configurations)
        for decision in result.observed.decisions if result.observed else ():
            coverage.count(configurations, decision)

    def _exit_code(self, score: Score, coverage: Coverage) -> ExitCode:
        """Of several codes that apply, the highest: a run that missed something must not look complete."""
        if score.undecided:
            return ExitCode.BROKEN
        if score.unreadable:
            return ExitCode.BAD_INPUT
        wanted = self.coverage_threshold
        if wanted is not None and coverage.percent < wanted:
            self.complain(f"coverage is {coverage.percent:.1f} %, and is to be {wanted:g} % at least")
            return ExitCode.DENIED
        return ExitCode.DENIED if score.failed else ExitCode.ADMITTED
