"""Deciding the playground's cases, with the chain that ``pratique review`` has."""

from __future__ import annotations

import dataclasses
import io
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypedDict

import msgspec

from pratique.admission.controllers import BOTH
from pratique.admission.reviews import Deadline
from pratique.apimachinery.documents import read_text
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSONObject, member
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.source_documents import SourceDocument, unwrap_lists
from pratique.cluster.files import load_cluster
from pratique.cluster.store import ObjectStore
from pratique.configuration.loading import Configurations, load_configurations
from pratique.configuration.settings import ChainSettings
from pratique_cli.outputs import ReviewedDocument
from pratique_cli.outputs.findings import findings
from pratique_cli.reviews.expansions import Expander
from pratique_cli.reviews.requests import CREATED, RequestShape, review_of, store_admitted
from pratique_cli.suites.writing import WrittenCase, suite_text
from pratique_frontdoor.console.playground import DecidedReview, LineMark, PlaygroundCase, PlaygroundResult
from pratique_frontdoor.engines.local import LocalEngine, LocalSources

_LINE = pattern(r"^(manifest|policies|cluster): .*?\bline (\d+)\b", re.DOTALL)
"""How errors name the editor and the line."""
_MAX_DOCUMENTS = 20
"""How many documents of a manifest are decided."""
_POLICIES_FILE = "policies.yaml"


class _Outcome(msgspec.Struct):
    """What has come of a case so far."""

    shape: RequestShape
    decided: list[DecidedReview] = msgspec.field(default_factory=list)
    marks: list[LineMark] = msgspec.field(default_factory=list)
    problems: list[str] = msgspec.field(default_factory=list)

    def miss(self, error: InputError) -> None:
        """Add what could not be read or used, at its line."""
        for problem in error.problems:
            self.problems.append(problem)
            if found := _LINE.match(problem):
                self.marks.append(LineMark(found[1], int(found[2]), "error", problem.partition(": ")[2]))

    def add(self, reviewed: ReviewedDocument) -> None:
        """Add a decision with its Pods, and mark what it finds wrong."""
        title = _title(reviewed.decision.object_document.data or reviewed.document.data)
        self.decided.append(DecidedReview(title, reviewed.review, reviewed.decision))
        for pod in reviewed.expanded:
            self.decided.append(DecidedReview(title, pod.review, pod.decision, of_workload=True))
        for finding in findings(reviewed):
            text = f"{finding.text} ({finding.origin})"
            self.marks.append(LineMark("manifest", finding.place.line, finding.level.value, text))


class OfflinePlayground:
    """Decides cases in this process. Quotas count in memory, for one case alone."""

    def __init__(self, chain: ChainSettings, timeout_seconds: float, *, may_call_webhooks: bool) -> None:
        """Decide with the settings of a chain, to whose files a case adds its own.

        Args:
            chain: The settings.
            timeout_seconds: The time for each review.
            may_call_webhooks: Call webhooks for the cases that ask for it, as dry runs.

        Raises:
            ConfigurationError: the settings cannot be used.
        """
        self._chain = dataclasses.replace(chain, calls_conversion_webhooks=False)
        self._timeout_seconds = timeout_seconds
        self.may_call_webhooks = may_call_webhooks
        self._sources = LocalSources.read(chain)
        load_cluster(chain.cluster)

    async def decide(self, case: PlaygroundCase) -> PlaygroundResult:
        """Decide a case; what cannot be read is part of the result."""
        shape = RequestShape(object_validation=True, dry_run=self._calls_webhooks(case))
        return await self._run(case, shape)

    def _calls_webhooks(self, case: PlaygroundCase) -> bool:
        return self.may_call_webhooks and case.call_webhooks

    async def _run(self, case: PlaygroundCase, shape: RequestShape) -> PlaygroundResult:
        outcome = _Outcome(shape)
        not_called: tuple[str, ...] = ()
        try:
            configurations = self._configurations(case)
            if not self._calls_webhooks(case):
                not_called = tuple(_webhooks(configurations))
                configurations = _without_webhooks(configurations)
            await self._review(case, configurations, outcome)
        except InputError as error:
            outcome.miss(error)
        except TimeoutError:
            outcome.problems.append(f"no decision within {self._timeout_seconds:g} s")
        return PlaygroundResult(outcome.decided, outcome.marks, outcome.problems, not_called)

    def _configurations(self, case: PlaygroundCase) -> Configurations:
        return load_configurations(self._chain.config, _read(case.policies, "policies"))

    def _store(self, case: PlaygroundCase) -> ObjectStore:
        further = _read(case.cluster, "cluster")
        paths = self._chain.cluster
        return load_cluster(() if further and paths is None else paths, further)

    async def _review(self, case: PlaygroundCase, configurations: Configurations, outcome: _Outcome) -> None:
        store = self._store(case)
        sources = LocalSources(self._sources.chain, configurations)
        engine = LocalEngine(self._chain, store, sources)
        try:
            expander = Expander(engine=engine, phases=BOTH, timeout_seconds=self._timeout_seconds)
            documents = list(unwrap_lists(_read(case.manifest, "manifest")))
            for number, document in enumerate(documents[:_MAX_DOCUMENTS]):
                await self._decide(document, number, engine, expander, outcome)
            if len(documents) > _MAX_DOCUMENTS:
                outcome.problems.append(f"only the first {_MAX_DOCUMENTS} documents are decided here")
        finally:
            await engine.close()

    async def _decide(
        self,
        document: SourceDocument,
        number: int,
        engine: LocalEngine,
        expander: Expander,
        outcome: _Outcome,
    ) -> None:
        store = engine.cluster
        assert isinstance(store, ObjectStore)  # noqa: S101 - this class made it
        try:
            review = expander.mark_charged(review_of(document, store, number, outcome.shape))
            deadline = Deadline.after(self._timeout_seconds)
            decision = await engine.decide(review, BOTH, deadline, explain=True)
            expander.remember_pod(review, decision)
            outcome.add(await expander.expand(ReviewedDocument(document, review, decision), number))
            if decision.allowed:
                await engine.on_admitted(review.with_object(decision.object_document))
            store_admitted(review, decision, store, outcome.shape)
        except InputError as error:
            outcome.miss(error)

    async def save(self, case: PlaygroundCase) -> bytes:
        """Make a ZIP archive with a suite of ``pratique test`` that expects what is decided now.

        Raises:
            InputError: the case is not one readable manifest, calls webhooks, or depends on object validation, which
                suites leave out.
        """
        if self._calls_webhooks(case):
            raise InputError(
                "a case of `pratique test` cannot expect what webhooks say: save it without calls to them"
            )
        shown, tested = await self.decide(case), await self._run(case, CREATED)
        documents = [] if shown.problems else list(unwrap_lists(_read(case.manifest, "manifest")))
        if len(documents) != 1:
            raise InputError("a case of `pratique test` is one manifest without errors")
        written = _written(documents[0].data, shown)
        if written.expect != _written(documents[0].data, tested).expect:
            problem = "this decision depends on object validation, which `pratique test` does not make"
            raise InputError(problem)
        suite = suite_text("playground", [written], **self._around(case))
        return _archive(
            {"suite.yaml": suite} | ({_POLICIES_FILE: case.policies} if case.policies.strip() else {})
        )

    def _around(self, case: PlaygroundCase) -> _SuiteParts:
        objects = [document.data for document in unwrap_lists(_read(case.cluster, "cluster"))]
        paths = [path.absolute() for path in self._chain.cluster or ()]
        own = [_POLICIES_FILE] if case.policies.strip() else []
        return {
            "config": [*(path.absolute() for path in self._chain.config), *own],
            "cluster": None if self._chain.cluster is None and not objects else [*paths, *objects],
        }


class _SuiteParts(TypedDict):
    """What surrounds the case in its suite."""

    config: Sequence[Path | str]
    cluster: Sequence[Path | str | JSONObject] | None


def _read(text: str, editor: str) -> list[SourceDocument]:
    return list(read_text(text.encode(), editor, unique_keys=editor == "policies"))


def _webhooks(configurations: Configurations) -> Iterator[str]:
    """Yield the names of the webhooks that a cluster would call."""
    for configuration in (*configurations.mutating, *configurations.validating):
        for webhook in configuration.webhooks:
            yield f"{webhook.name} of {configuration.name}"


def _without_webhooks(configurations: Configurations) -> Configurations:
    return msgspec.structs.replace(configurations, mutating=(), validating=())


def _title(document: JSONObject) -> str:
    name = member(document, "metadata", "name") or member(document, "metadata", "generateName")
    return " ".join(str(part) for part in (document.get("kind"), name) if part)


def _written(manifest: JSONObject, result: PlaygroundResult) -> WrittenCase:
    decision = result.decided[0].decision
    expect: JSONObject = {"allowed": decision.allowed}
    if decision.status is not None:
        expect["message"] = re.escape(decision.status.message)
    verb = "is admitted" if decision.allowed else "is denied"
    return WrittenCase(name=f"{result.decided[0].title} {verb}", manifest=manifest, expect=expect)


def _archive(files: Mapping[str, str]) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(f"case/{name}", text)
    return written.getvalue()
