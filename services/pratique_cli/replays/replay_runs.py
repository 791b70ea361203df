"""Replay runs: every recorded review through the engine, alone, and compared with what was decided before."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from frontdoor.decisions import to_document
from pratique.calls import Deadline
from pratique.errors import InputError
from pratique_cli.exits import ExitCode
from pratique_cli.inputs import read_inputs
from pratique_cli.progresses import Progress
from pratique_cli.replays.outcomes import outcome_of
from pratique_cli.replays.recorded import Recorded, read_recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from frontdoor.engines import Engine
    from pratique.definitions import Phase
    from pratique.source_documents import SourceDocument
    from pratique_cli.replays.comparisons import Comparer
    from pratique_cli.replays.outcomes import Outcome
    from pratique_cli.replays.outputs import ReplayOutput
    from pratique_cli.replays.reports import Report
    from pratique_cli.replays.stillness import StillCluster

WEBHOOKS = ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
"""The controllers that call webhooks."""
_SPEAKING = frozenset({"denied", "failed", "mutated", "warned"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRun:
    """One run of ``pratique replay``."""

    engine: Engine
    """Decides as will be decided."""
    against: Engine | None
    """Decides as was decided; None where the recording says what was."""
    cluster: StillCluster
    """What both look up."""
    phases: frozenset[Phase]
    """What AdmissionReviews alone go through."""
    timeout_seconds: float
    """How long each decision may take."""
    skip_webhooks: bool
    """Webhooks are not called: what they had a part in is not compared."""
    comparer: Comparer
    report: Report
    output: ReplayOutput
    complain: Callable[[str], None]
    """Takes what is to be said beside the report, a line each."""
    progress: Progress = dataclasses.field(default_factory=lambda: Progress(None))

    async def run(self, paths: Iterable[Path]) -> ExitCode:
        """Replay every document, in the order in which they are given, and tell how it went as a whole."""
        try:
            for path in paths:
                for each in read_inputs(path):
                    await self._take(each)
                    self.progress.tell(f"{self.report.compared} replayed, {self.report.different} different")
        finally:
            self.progress.clear()
        self.output.finish(self.report)
        return _exit_code(self.report)

    async def _take(self, each: SourceDocument | InputError) -> None:
        try:
            if isinstance(each, InputError):
                raise each
            await self._replay(each)
        except InputError as error:
            self.report.unreadable += 1
            self.complain(str(error))

    async def _replay(self, document: SourceDocument) -> None:
        recorded = read_recorded(document, self.cluster, self.phases)
        if recorded.omitted:
            self.report.omitted += 1
            return
        if recorded.outcome is None and self.against is None:
            raise document.fault(
                (), "no decision is recorded; --against names the configuration to compare with"
            )
        try:
            before = await self._before(recorded)
            if self.skip_webhooks and _has_part(before):
                self.report.skipped += 1
                return
            after = await self._decide(self.engine, recorded)
        except TimeoutError:
            self.report.undecided += 1
            problem = f"no decision within {self.timeout_seconds:g} s; --timeout allows more"
            self.complain(str(document.fault((), problem)))
            return
        differences = self.comparer.compare(before, after, recorded.redacted)
        self.report.add(recorded, differences)
        if differences:
            self.output.write(recorded, differences)

    async def _before(self, recorded: Recorded) -> Outcome:
        if self.against is not None or recorded.outcome is None:
            return await self._decide(self.against or self.engine, recorded)
        return recorded.outcome

    async def _decide(self, engine: Engine, recorded: Recorded) -> Outcome:
        try:
            deadline = Deadline.after(self.timeout_seconds)
            decision = await engine.decide(recorded.review, recorded.phases, deadline)
        finally:
            self.cluster.settle()
        return outcome_of(to_document(decision), recorded.review.object)


def _has_part(outcome: Outcome) -> bool:
    return any(one.rule.controller in WEBHOOKS and one.outcome in _SPEAKING for one in outcome.steps)


def _exit_code(report: Report) -> ExitCode:
    """Of several codes that apply, the highest: a run that missed something must not look complete."""
    if report.undecided:
        return ExitCode.BROKEN
    if report.unreadable:
        return ExitCode.BAD_INPUT
    return ExitCode.DENIED if report.different else ExitCode.ADMITTED
