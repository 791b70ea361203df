"""Running a replay: every recorded review goes through the engine, on an unchanged cluster."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from pratique.admission.controllers import Phase
from pratique.admission.reviews import Deadline
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.names import name_of
from pratique.apimachinery.source_documents import SourceDocument
from pratique.cluster.api_resources import ApiResources
from pratique.cluster.store import ObjectKey, ObjectStore, assumed_service_account
from pratique.configuration.settings import ChainSettings
from pratique_cli.exit_codes import ExitCode
from pratique_cli.progress import Progress
from pratique_cli.replays.comparisons import DecisionComparer
from pratique_cli.replays.recorded_reviews import (
    RecordedReview,
    ReplayedDecision,
    read_recorded,
    replayed_decision,
)
from pratique_cli.replays.reports import ReplayOutput, ReplayReport
from pratique_cli.reviews.inputs import read_inputs_with_progress
from pratique_frontdoor.chain.decision_documents import to_document
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.engines.engine import Engine
from pratique_frontdoor.recording.redaction import concerns_secret


class ReplayCluster:
    """A read-only view of a store, plus the objects that the current review created, until :meth:`settle`."""

    def __init__(self, store: ObjectStore) -> None:
        """Show ``store``, which is not modified."""
        self._store = store
        self._created: dict[ObjectKey, JSONObject] = {}

    @property
    def resources(self) -> ApiResources:
        """The resources that the store serves."""
        return self._store.resources

    def get(self, group: str, resource: str, name: str, namespace: str = "") -> JSONObject | None:
        """Get one object."""
        for key, document in self._created.items():
            if (key.group, key.resource, key.namespace, key.name) == (group, resource, namespace, name):
                return document
        return self._store.get(group, resource, name, namespace)

    def list(self, group: str, resource: str, namespace: str | None = None) -> Sequence[JSONObject]:
        """List the objects of a resource, sorted by namespace and name."""
        stored = self._store.list(group, resource, namespace)
        created = [
            document
            for key, document in self._created.items()
            if (key.group, key.resource) == (group, resource) and namespace in (None, key.namespace)
        ]
        return sorted(itertools.chain(stored, created), key=_sort_key) if created else stored

    async def create(self, document: JSONObject) -> bool:
        """Add an object for the duration of the review; False if one of its name exists.

        Raises:
            InputError: its kind is unknown, or it has no name.
        """
        key = self._store.key_of(document)
        if self.get(key.group, key.resource, key.name, key.namespace) is not None:
            return False
        self._created[key] = document
        if (key.group, key.resource) == ("", "namespaces"):
            await self.create(assumed_service_account(key.name))
        return True

    def settle(self) -> None:
        """Forget the created objects, so that the next review sees the original store."""
        self._created.clear()


def _sort_key(document: JSONObject) -> tuple[str, str]:
    return str(document["metadata"].get("namespace", "")), name_of(document)


WEBHOOKS = ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
"""The controllers that call webhooks."""


def without_webhooks(chain: ChainSettings) -> ChainSettings:
    """Return a chain without the controllers that call webhooks, and without the webhooks that convert objects."""
    if chain.admission_control is not None:
        kept = tuple(name for name in chain.admission_control if name not in WEBHOOKS)
        return dataclasses.replace(chain, admission_control=kept, calls_conversion_webhooks=False)
    enabled = tuple(name for name in chain.enable_admission_plugins if name not in WEBHOOKS)
    disabled = (*chain.disable_admission_plugins, *WEBHOOKS)
    return dataclasses.replace(
        chain,
        enable_admission_plugins=enabled,
        disable_admission_plugins=tuple(dict.fromkeys(disabled)),
        calls_conversion_webhooks=False,
    )


_ACTIVE_OUTCOMES = frozenset({"denied", "failed", "mutated", "warned"})


class ReplayRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of ``pratique replay``."""

    engine: Engine
    """The engine of the new configuration."""
    against: Engine | None
    """The engine to compare with; None to compare with the recorded decisions."""
    cluster: ReplayCluster
    """The cluster of both engines."""
    phases: frozenset[Phase]
    """The phases of AdmissionReviews that are not part of a recording."""
    timeout_seconds: float
    """The time limit of each decision."""
    skip_webhooks: bool
    """Whether webhooks are off, so that reviews that they influenced are not compared."""
    comparer: DecisionComparer
    report: ReplayReport
    output: ReplayOutput
    report_problem: Callable[[str], None]
    """Prints a problem, one line."""
    observe: Callable[[Decision], None] | None = None
    """Gets each decision of the new configuration, with a step for everything that allowed or did not match."""
    progress: Progress = msgspec.field(default_factory=lambda: Progress(None))

    async def run(self, paths: Iterable[Path]) -> ExitCode:
        """Replay all documents in order, and return the exit code of the run."""
        try:
            for document in read_inputs_with_progress(list(paths), self.progress):
                await self._take(document)
                self.progress.update(f"{self.report.compared} replayed, {self.report.different} different")
        finally:
            self.progress.clear()
        self.output.finish(self.report)
        return _exit_code(self.report)

    async def _take(self, document: SourceDocument | InputError) -> None:
        try:
            if isinstance(document, InputError):
                raise document
            await self._replay(document)
        except InputError as error:
            self.report.unreadable += 1
            self.report_problem(str(error))

    async def _replay(self, document: SourceDocument) -> None:
        recorded = read_recorded(document, self.cluster, self.phases)
        if recorded.omitted:
            self.report.omitted += 1
            return
        if recorded.outcome is None and self.against is None:
            raise document.fault(
                (), "no decision is recorded; give a configuration to compare with by --against"
            )
        try:
            before = await self._before(recorded)
            if self.skip_webhooks and _involves_webhooks(before):
                self.report.skipped += 1
                return
            after = await self._decide(self.engine, recorded, self.observe)
        except TimeoutError:
            self.report.undecided += 1
            problem = f"no decision within {self.timeout_seconds:g} s; --timeout allows more"
            self.report_problem(str(document.fault((), problem)))
            return
        differences = self.comparer.compare(
            before, after, recorded.redacted, in_secret=concerns_secret(recorded.review)
        )
        self.report.add(recorded, differences)
        if differences:
            self.output.write(recorded, differences)

    async def _before(self, recorded: RecordedReview) -> ReplayedDecision:
        if self.against is not None or recorded.outcome is None:
            return await self._decide(self.against or self.engine, recorded)
        return recorded.outcome

    async def _decide(
        self, engine: Engine, recorded: RecordedReview, observe: Callable[[Decision], None] | None = None
    ) -> ReplayedDecision:
        try:
            deadline = Deadline.after(self.timeout_seconds)
            decision = await engine.decide(
                recorded.review, recorded.phases, deadline, explain=observe is not None
            )
        finally:
            self.cluster.settle()
        if observe is not None:
            observe(decision)
        return replayed_decision(to_document(decision), recorded.review.object)


def _involves_webhooks(outcome: ReplayedDecision) -> bool:
    return any(
        step.origin.controller in WEBHOOKS and step.outcome in _ACTIVE_OUTCOMES for step in outcome.steps
    )


def _exit_code(report: ReplayReport) -> ExitCode:
    """The highest of the codes that apply, so that an incomplete run does not look complete."""
    if report.undecided:
        return ExitCode.BROKEN
    if report.unreadable:
        return ExitCode.BAD_INPUT
    return ExitCode.DENIED if report.different else ExitCode.ADMITTED
