"""Replaying a recording in the background, for the console: what would differ, and which policies it uses."""

from __future__ import annotations

import asyncio
import collections
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from pratique.admission.controllers import BOTH
from pratique.admission.results import OutcomeStatus
from pratique.apimachinery.errors import PratiqueError
from pratique.cluster.files import load_cluster
from pratique.configuration.settings import ChainSettings
from pratique.hosting.catalogue import load_catalogue
from pratique_cli.outputs.findings import StepOrigin
from pratique_cli.progress import Progress
from pratique_cli.replays.comparisons import DecisionComparer, DifferenceKind
from pratique_cli.replays.recorded_reviews import RedactionReaders, mentions_extra
from pratique_cli.replays.reports import (
    KIND_TEXTS,
    DifferenceCount,
    DifferenceExample,
    ReplayReport,
    change_lines,
    total_texts,
)
from pratique_cli.replays.runs import ReplayCluster, ReplayRun, without_webhooks
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.console.replay import (
    DifferenceGroup,
    PolicyUse,
    ReplayState,
    ReplayStatus,
    ShownDifferences,
    ShownExample,
)
from pratique_frontdoor.engines.engine import open_local

_EXAMPLES = 5
"""How many reviews are shown for each difference."""
_MAX_ORIGINS = 1000
"""How many controllers, webhooks and policies are counted."""
_SYMBOLS = {
    DifferenceKind.DENIED: ("✕", "denied"),
    DifferenceKind.ADMITTED: ("✓", "allowed"),
    DifferenceKind.REASON: ("✕", "denied"),
    DifferenceKind.OBJECT: ("✎", "changed"),
    DifferenceKind.WARNINGS: ("!", "changed"),
    DifferenceKind.AUDIT: ("=", "changed"),
}
_DENYING = frozenset({OutcomeStatus.DENIED, OutcomeStatus.FAILED})


class _StoppedError(Exception):
    """The console ends."""


class _SharedProgress(Progress):
    """Progress that another thread reads, and that ends the work once it is told to stop."""

    __slots__ = ("stopped",)

    def __init__(self) -> None:
        super().__init__(None)
        self.stopped = threading.Event()

    @property
    def is_shown(self) -> bool:
        return True

    @property
    def share(self) -> float:
        return min(self._done / self._total, 1.0) if self._total else 0.0

    def update(self, line: str) -> None:
        del line
        if self.stopped.is_set():
            raise _StoppedError


class PolicyCoverage(msgspec.Struct):
    """Which controllers, webhooks and policies ran, and what they did."""

    _outcomes: dict[StepOrigin, collections.Counter[OutcomeStatus]] = msgspec.field(default_factory=dict)

    def add(self, decision: Decision) -> None:
        """Count the steps of a decision; one that ran twice counts once, by its strongest outcome."""
        outcomes: dict[StepOrigin, list[OutcomeStatus]] = {}
        for step in decision.steps:
            name = "" if step.name == step.controller else step.name
            outcomes.setdefault(StepOrigin(step.controller, name, step.configuration), []).append(
                step.outcome
            )
        for origin, found in outcomes.items():
            if origin in self._outcomes or len(self._outcomes) < _MAX_ORIGINS:
                counted = self._outcomes.setdefault(origin, collections.Counter())
                counted[max(found, key=_STRENGTH.index)] += 1

    def uses(self) -> list[PolicyUse]:
        """List all: those that never ran first, and policies and webhooks before controllers."""
        ordered = sorted(
            self._outcomes.items(), key=lambda item: (_runs(item[1]) > 0, not item[0].name, str(item[0]))
        )
        return [
            PolicyUse(
                origin=str(origin),
                ran=_runs(counts),
                denied=sum(counts[outcome] for outcome in _DENYING),
                mutated=counts[OutcomeStatus.MUTATED],
                warned=counts[OutcomeStatus.WARNED],
                skipped=counts[OutcomeStatus.SKIPPED],
            )
            for origin, counts in ordered
        ]


def _runs(counts: collections.Counter[OutcomeStatus]) -> int:
    return counts.total() - counts[OutcomeStatus.SKIPPED]


_STRENGTH = (
    OutcomeStatus.SKIPPED,
    OutcomeStatus.UNCHANGED,
    OutcomeStatus.ALLOWED,
    OutcomeStatus.FAILED_OPEN,
    OutcomeStatus.WARNED,
    OutcomeStatus.MUTATED,
    OutcomeStatus.FAILED,
    OutcomeStatus.DENIED,
)


class _NoOutput:
    """Writes nothing: the report is shown instead."""

    def write(self, *_: object) -> None:
        pass

    def finish(self, report: ReplayReport) -> None:
        pass


class RecordingReplayer:
    """Replays a recording in a thread of its own, under one configuration and without calling webhooks."""

    def __init__(
        self, path: Path, chain: ChainSettings, timeout_seconds: float, number_of: Callable[[int], int]
    ) -> None:
        """Replay ``path`` under ``chain`` when told to.

        Args:
            path: The recording.
            chain: Decides; its webhooks are not called.
            timeout_seconds: The limit of each decision.
            number_of: Returns the place of a decision in the recording, from the number of its line.
        """
        self._path, self._chain, self._timeout_seconds = path, without_webhooks(chain), timeout_seconds
        self._number_of = number_of
        self._progress = _SharedProgress()
        self._thread: threading.Thread | None = None
        self._state = ReplayState()

    @property
    def state(self) -> ReplayState:
        """How far it is, and what came of it."""
        state = self._state
        if state.status is ReplayStatus.RUNNING:
            return msgspec.structs.replace(state, share=self._progress.share)
        return state

    def start(self) -> None:
        """Begin a replay, unless one is running."""
        if self._state.status is ReplayStatus.RUNNING:
            return
        self._progress = _SharedProgress()
        self._state = ReplayState(ReplayStatus.RUNNING)
        self._thread = threading.Thread(target=self._run, name="replay", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End a replay that is running, and wait until it has."""
        self._progress.stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        report, coverage = ReplayReport(_EXAMPLES), PolicyCoverage()
        try:
            asyncio.run(self._replay(report, coverage))
        except _StoppedError:
            self._state = ReplayState()
        except (PratiqueError, OSError) as error:
            self._state = ReplayState(ReplayStatus.FAILED, problem=str(error))
        except Exception as error:  # noqa: BLE001 - the page must not show a replay that never ends
            self._state = ReplayState(ReplayStatus.FAILED, problem=f"internal error: {type(error).__name__}")
        else:
            self._state = ReplayState(
                ReplayStatus.DONE, 1.0, list(total_texts(report)), "", self._groups(report), coverage.uses()
            )

    async def _replay(self, report: ReplayReport, coverage: PolicyCoverage) -> None:
        cluster = ReplayCluster(load_cluster(self._chain.cluster))
        engine = open_local(self._chain, cluster)
        readers = RedactionReaders(load_catalogue(), policies_read_extra=mentions_extra(self._chain.config))
        run = ReplayRun(
            engine=engine,
            against=None,
            cluster=cluster,
            phases=BOTH,
            timeout_seconds=self._timeout_seconds,
            skip_webhooks=True,
            comparer=DecisionComparer(readers.read),
            report=report,
            output=_NoOutput(),
            report_problem=lambda _: None,
            progress=self._progress,
            observe=coverage.add,
        )
        try:
            await run.run([self._path])
        finally:
            await engine.close()

    def _groups(self, report: ReplayReport) -> list[DifferenceGroup]:
        return [
            DifferenceGroup(
                str(origin) if origin.controller else "nobody in particular",
                [self._differences(kind, entry) for kind, entry in sums],
            )
            for origin, sums in report.groups()
        ]

    def _differences(self, kind: DifferenceKind, entry: DifferenceCount) -> ShownDifferences:
        symbol, level = _SYMBOLS[kind]
        examples = [self._example(example) for example in entry.examples]
        return ShownDifferences(KIND_TEXTS[kind], symbol, level, entry.count, entry.uncertain, examples)

    def _example(self, example: DifferenceExample) -> ShownExample:
        lines: Sequence[tuple[str, str]] = list(
            change_lines(example.difference.before, example.difference.after)
        )
        return ShownExample(
            example.subject, self._number_of(example.line), lines, example.difference.uncertain
        )
