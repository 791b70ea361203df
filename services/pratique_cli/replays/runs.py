"""Replay runs: every recorded review through the engine, on a cluster as it was at the beginning."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pratique.admission.controllers import Phase
from pratique.admission.reviews import Deadline
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.names import name_of
from pratique.apimachinery.source_documents import SourceDocument
from pratique.cluster.api_resources import ApiResources
from pratique.cluster.store import ObjectKey, ObjectStore, assumed_service_account
from pratique_cli.exit_codes import ExitCode
from pratique_cli.replays.comparisons import DecisionComparer
from pratique_cli.replays.recorded_reviews import (
    RecordedReview,
    ReplayedDecision,
    read_recorded,
    replayed_decision,
)
from pratique_cli.replays.reports import ReplayOutput, ReplayReport
from pratique_cli.reviews.inputs import read_inputs
from pratique_cli.terminal import Progress
from pratique_frontdoor.chain.decisions import to_document
from pratique_frontdoor.engines.engine import Engine


class ReplayCluster:
    """Shows a store, and what one review created in it until :meth:`settle`."""

    def __init__(self, store: ObjectStore) -> None:
        """Show ``store``, which is not changed."""
        self._store = store
        self._created: dict[ObjectKey, JSONObject] = {}

    @property
    def resources(self) -> ApiResources:
        """All kinds that the store knows."""
        return self._store.resources

    def get(self, group: str, resource: str, name: str, namespace: str = "") -> JSONObject | None:
        """One object."""
        for key, document in self._created.items():
            if (key.group, key.resource, key.namespace, key.name) == (group, resource, namespace, name):
                return document
        return self._store.get(group, resource, name, namespace)

    def list(self, group: str, resource: str, namespace: str | None = None) -> Sequence[JSONObject]:
        """All objects of a resource, sorted by namespace and name."""
        stored = self._store.list(group, resource, namespace)
        created = [
            document
            for key, document in self._created.items()
            if (key.group, key.resource) == (group, resource) and namespace in (None, key.namespace)
        ]
        return sorted(itertools.chain(stored, created), key=_sort_key) if created else stored

    async def create(self, document: JSONObject) -> bool:
        """Take a new object for as long as the review lasts; False where there is one of its name already.

        Raises:
            InputError: its kind is not known, or it has no name.
        """
        key = self._store.key_of(document)
        if self.get(key.group, key.resource, key.name, key.namespace) is not None:
            return False
        self._created[key] = document
        if (key.group, key.resource) == ("", "namespaces"):
            await self.create(assumed_service_account(key.name))
        return True

    def settle(self) -> None:
        """Forget what was created: the next review finds what this one found."""
        self._created.clear()


def _sort_key(document: JSONObject) -> tuple[str, str]:
    return str(document["metadata"].get("namespace", "")), name_of(document)


WEBHOOKS = ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
"""The controllers that call webhooks."""
_ACTIVE_OUTCOMES = frozenset({"denied", "failed", "mutated", "warned"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRun:
    """One run of ``pratique replay``."""

    engine: Engine
    """Decides as will be decided."""
    against: Engine | None
    """Decides as was decided; None where the recording says what was."""
    cluster: ReplayCluster
    """What both look up."""
    phases: frozenset[Phase]
    """What AdmissionReviews alone go through."""
    timeout_seconds: float
    """How long each decision may take."""
    skip_webhooks: bool
    """Webhooks are not called: what they had a part in is not compared."""
    comparer: DecisionComparer
    report: ReplayReport
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
            if self.skip_webhooks and _involves_webhooks(before):
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

    async def _before(self, recorded: RecordedReview) -> ReplayedDecision:
        if self.against is not None or recorded.outcome is None:
            return await self._decide(self.against or self.engine, recorded)
        return recorded.outcome

    async def _decide(self, engine: Engine, recorded: RecordedReview) -> ReplayedDecision:
        try:
            deadline = Deadline.after(self.timeout_seconds)
            decision = await engine.decide(recorded.review, recorded.phases, deadline)
        finally:
            self.cluster.settle()
        return replayed_decision(to_document(decision), recorded.review.object)


def _involves_webhooks(outcome: ReplayedDecision) -> bool:
    return any(one.rule.controller in WEBHOOKS and one.outcome in _ACTIVE_OUTCOMES for one in outcome.steps)


def _exit_code(report: ReplayReport) -> ExitCode:
    """Of several codes that apply, the highest: a run that missed something must not look complete."""
    if report.undecided:
        return ExitCode.BROKEN
    if report.unreadable:
        return ExitCode.BAD_INPUT
    return ExitCode.DENIED if report.different else ExitCode.ADMITTED
