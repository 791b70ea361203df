"""Finding suites in files and folders, and reading their cases."""

from __future__ import annotations

import collections
import dataclasses
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from pratique.admission.controllers import Phase
from pratique.admission.reviews import impersonated_user
from pratique.apimachinery.documents import SUITE_GROUP, is_suite, read_file
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSON, json_type
from pratique.apimachinery.manifest_files import walk
from pratique.apimachinery.requests import Operation, UserInfo
from pratique.apimachinery.source_documents import SourceDocument, unwrap_lists
from pratique.configuration.settings import ChainSettings
from pratique.manifests.requests import KUBECTL_USER
from pratique_cli.outputs.changes import ObjectPath
from pratique_cli.reviews.requests import CREATED, PHASES, RequestShape
from pratique_cli.suites.cases import Case, ClusterSource
from pratique_cli.suites.forms import CaseForm, RequestForm, SuiteForm, decode_suite, suggestion
from pratique_cli.suites.references import FlagError, References, read_expectation, read_flags


def find_suites(paths: Iterable[Path], problems: list[InputError]) -> Iterator[SourceDocument]:
    """Yield the suites in files, and recursively in folders, in name order.

    Other documents are skipped. A file that does not mention the API group of suites is not parsed at all, so that
    templates may lie beside suites. Hidden folders are skipped. Unreadable files, and paths without a suite, are added
    to ``problems``.
    """
    holds_suites: dict[str, bool] = {}
    for path in paths:
        found = False
        for file in _files(path, problems):
            real = os.path.realpath(file)
            if real not in holds_suites:
                begun = len(problems)
                documents = list(_suites(file, problems))
                holds_suites[real] = bool(documents) or len(problems) > begun
                yield from documents
            found = found or holds_suites[real]
        if not found:
            problems.append(InputError(f"{path}: {_no_suite_text(path)}", file=str(path)))


def _no_suite_text(path: Path) -> str:
    where = ", nor does any folder inside it" if path.is_dir() else ""
    return f"holds no suite: a document of apiVersion {SUITE_GROUP}/v1 and kind TestSuite{where}"


def _files(path: Path, problems: list[InputError]) -> Iterator[str]:
    if not path.is_dir():
        yield str(path)
        return
    try:
        yield from (str(entry) for entry, is_folder in walk(path) if not is_folder)
    except OSError as error:
        problems.append(_unreadable(error.filename or str(path), error))


def _unreadable(file: str, error: OSError) -> InputError:
    return InputError(f"{file}: {(error.strerror or str(error)).lower()}", file=file)


def _suites(file: str, problems: list[InputError]) -> Iterator[SourceDocument]:
    try:
        if SUITE_GROUP.encode() in Path(file).read_bytes():
            yield from (
                document
                for document in unwrap_lists(read_file(file, unique_keys=True))
                if is_suite(document.data)
            )
    except OSError as error:
        problems.append(_unreadable(file, error))
    except InputError as error:
        problems.append(error)


def read_cases(documents: Iterable[SourceDocument], problems: list[InputError]) -> Iterator[Case]:
    """Read suites one by one, and yield the cases that can run; problems are added to ``problems``.

    A problem of a suite itself skips all its cases; a problem of a case skips only that case.
    """
    for document in documents:
        form = decode_suite(document, problems)
        if form is not None:
            yield from _SuiteReader(document, form, problems).cases()


class _SuiteReader:
    """Reads one suite."""

    def __init__(self, document: SourceDocument, form: SuiteForm, problems: list[InputError]) -> None:
        self._document = document
        self._form = form
        self._problems = problems
        self._references = References(document, problems)

    def cases(self) -> Iterator[Case]:
        begun = len(self._problems)
        settings = self._settings()
        cluster = self._cluster(self._form.cluster, ("cluster",))
        if not self._form.metadata.name:
            self._references.report_problem(
                ("metadata", "name"), "metadata.name: Required value: a suite needs a name"
            )
        if not self._form.cases:
            self._references.report_problem(
                ("cases",), "cases: Required value: a suite needs at least one case"
            )
        if len(self._problems) > begun:
            return
        names = collections.Counter(form.name for form in self._form.cases)
        for index, form in enumerate(self._form.cases):
            case = self._case(form, ("cases", index), settings, cluster)
            if names[form.name] > 1:
                text = f'the name "{form.name}" occurs {names[form.name]} times'
                self._references.report_problem(("cases", index, "name"), text)
            elif case is not None:
                yield case

    def _settings(self) -> ChainSettings:
        try:
            settings = read_flags(self._form.flags, self._references.folder)
        except FlagError as error:
            self._references.report_problem(("flags", error.name), str(error))
            settings = read_flags({}, self._references.folder)
        return dataclasses.replace(settings, config=self._references.paths(self._form.config, ("config",)))

    def _cluster(self, entries: Iterable[JSON] | None, path: ObjectPath) -> ClusterSource | None:
        if entries is None:
            return None
        paths: list[Path] = []
        objects: list[SourceDocument] = []
        for index, entry in enumerate(entries):
            place = (*path, index)
            if isinstance(entry, str):
                paths.append(self._references.path(entry, place))
            elif isinstance(entry, dict):
                objects.append(self._document.part(entry, place))
            else:
                text = f"must be the path of a file or folder or an object, not {json_type(entry)}"
                self._references.report_problem(place, text)
        return ClusterSource(tuple(paths), tuple(objects))

    def _case(
        self, form: CaseForm, path: ObjectPath, settings: ChainSettings, cluster: ClusterSource | None
    ) -> Case | None:
        begun = len(self._problems)
        submitted = self._submitted(form, path)
        shape, old = self._shape(form, path)
        further = self._references.paths(form.config, (*path, "config"))
        own = self._cluster(form.cluster, (*path, "cluster"))
        if not form.name:
            self._references.report_problem(path, "name: Required value: a case needs a name")
        if form.phase and form.phase not in PHASES:
            text = f'there is no phase "{form.phase}"; {suggestion(form.phase, PHASES)}'
            self._references.report_problem((*path, "phase"), text)
        if form.expect is None:
            self._references.report_problem(path, "expect: Required value: a case needs an expectation")
            return None
        expect = read_expectation(form.expect, (*path, "expect"), self._references)
        if submitted is None or len(self._problems) > begun:
            return None
        return Case(
            suite=self._form.metadata.name,
            name=form.name,
            document=self._document,
            path=path,
            submitted=submitted,
            shape=shape,
            old=old,
            phases=self._phases(form),
            settings=dataclasses.replace(settings, config=(*settings.config, *further)),
            cluster=_merged_sources(cluster, own),
            expect=expect,
        )

    def _phases(self, form: CaseForm) -> frozenset[Phase]:
        return PHASES[form.phase or "admit"]

    def _submitted(self, form: CaseForm, path: ObjectPath) -> SourceDocument | None:
        given = {name: value for name in ("manifest", "review") if (value := getattr(form, name)) is not None}
        if len(given) != 1:
            found = "this one has both" if given else "this one has neither"
            self._references.report_problem(path, f"a case needs either a manifest or a review; {found}")
            return None
        [(name, value)] = given.items()
        if name == "review" and form.request is not None:
            self._references.report_problem(
                (*path, "request"), "a review contains its own request; write a manifest instead"
            )
        submitted = self._references.document_of(value, (*path, name))
        is_review = submitted is not None and submitted.data.get("kind") == "AdmissionReview"
        if submitted is not None and is_review is not (name == "review"):
            text = (
                "is not an AdmissionReview"
                if name == "review"
                else "is an AdmissionReview; write it as review"
            )
            self._references.report_problem((*path, name), f"{name}: {text}")
        return submitted

    def _shape(self, form: CaseForm, path: ObjectPath) -> tuple[RequestShape, SourceDocument | None]:
        request = form.request
        if request is None:
            return CREATED, None
        place = (*path, "request")
        old = None
        if request.old is not None:
            old = self._references.document_of(request.old, (*place, "old"))
        shape = RequestShape(
            operation=self._operation(request.operation, (*place, "operation")),
            namespace=request.namespace or None,
            user=self._user(request, place),
            dry_run=request.dry_run,
            subresource=request.subresource,
        )
        return shape, old

    def _operation(self, text: str, path: ObjectPath) -> Operation:
        if not text:
            return Operation.CREATE
        try:
            return Operation(text.upper())
        except ValueError:
            self._references.report_problem(
                path, f'there is no operation "{text}"; {suggestion(text, Operation)}'
            )
            return Operation.CREATE

    def _user(self, request: RequestForm, path: ObjectPath) -> UserInfo:
        if request.user:
            return impersonated_user(request.user, request.groups)
        if request.groups:
            text = "groups names the groups of the user: give user, too"
            self._references.report_problem((*path, "groups"), text)
        return KUBECTL_USER


def _merged_sources(first: ClusterSource | None, second: ClusterSource | None) -> ClusterSource | None:
    if first is None or second is None:
        return first or second
    return ClusterSource((*first.paths, *second.paths), (*first.objects, *second.objects))
