"""The output formats of ``pratique test`` for CI systems: GitHub annotations, JUnit and SARIF."""

from __future__ import annotations

from typing import BinaryIO

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.source_documents import display_path
from pratique_cli.outputs import junit
from pratique_cli.outputs.changes import path_text
from pratique_cli.outputs.findings import encodable, relative_path
from pratique_cli.outputs.github import annotation
from pratique_cli.outputs.sarif import (
    fingerprint,
    locations,
    notification,
    run_properties,
    sarif_log,
)
from pratique_cli.suites.cases import CaseResult, CaseStatus, ExpectationMismatch, SuiteCounts
from pratique_cli.suites.coverage import Coverage


class SuiteGitHubOutput:
    """Writes one line for each mismatch, each problem and each unused entry."""

    def __init__(self, stream: BinaryIO) -> None:
        """Write UTF-8 to ``stream``."""
        self._stream = stream

    def write(self, result: CaseResult) -> None:
        """Write the mismatches of one case, or its problem."""
        case = result.case
        for mismatch in result.mismatches:
            member = path_text(mismatch.path[len(case.path) :])
            text = "\n".join([f"{member}: {mismatch.text}", *mismatch.difference])
            place = result.position(mismatch)
            self._put(annotation("error", case.document.file, place, case.full_name, text))
        if result.error is not None:
            title = f"{result.status.value}: {case.full_name}"
            error = result.error
            self._put(annotation("error", error.file, error.place, title, str(error)))

    def write_problem(self, error: InputError) -> None:
        """Write an error."""
        self._put(annotation("error", error.file, error.place, "unreadable", str(error)))

    def finish(self, score: SuiteCounts, coverage: Coverage | None) -> None:  # noqa: ARG002 - the counts are not annotations
        """Write a notice for each unused entry."""
        for entry in coverage.entries if coverage is not None else ():
            if entry.source is not None and not entry.acted:
                text = "it matches cases, but has no effect in any" if entry.matched else "no case matches it"
                place = entry.source.position(entry.path)
                title = f"not covered: {entry.kind} {entry.name}"
                self._put(annotation("notice", entry.source.file, place, title, text))

    def _put(self, line: bytes) -> None:
        self._stream.write(line)
        self._stream.flush()


class SuiteJUnitOutput:
    """Writes the report at the end, because a file's unreadable suites come before its cases."""

    def __init__(self, stream: BinaryIO) -> None:
        """Write UTF-8 to ``stream``."""
        self._stream = stream
        self._suites: dict[str, junit.JUnitSuite] = {}

    def write(self, result: CaseResult) -> None:
        """Add a case."""
        case = result.case
        parts: list[junit.Part] = []
        if result.mismatches:
            body = "\n".join(_failure_lines(result))
            parts.append(junit.failure("mismatch", result.mismatches[0].text, body))
        if result.status in {CaseStatus.UNREADABLE, CaseStatus.UNDECIDED}:
            parts.append(junit.error(result.status.value, str(result.error)))
        self._suite(case.document.file).add(case.name, result.seconds, parts, case.suite)

    def write_problem(self, error: InputError) -> None:
        """Add a case that is an error."""
        name = "suite" if error.place is None else f"suite at line {error.place.line}"
        self._suite(error.file).add(name, 0.0, [junit.error(CaseStatus.UNREADABLE.value, str(error))])

    def finish(self, counts: SuiteCounts, coverage: Coverage | None) -> None:  # noqa: ARG002 - suites count for themselves
        """Write all suites."""
        self._stream.write(junit.HEAD)
        for suite in self._suites.values():
            suite.write_to(self._stream)
        self._stream.write(junit.TAIL)
        self._stream.flush()

    def _suite(self, file: str) -> junit.JUnitSuite:
        return self._suites.setdefault(file, junit.JUnitSuite(file))


def _failure_lines(result: CaseResult) -> list[str]:
    lines = []
    for mismatch in result.mismatches:
        place = f"{display_path(result.case.document.file)}:{result.position(mismatch).line}"
        lines.append(f"{place}: {path_text(mismatch.path[len(result.case.path) :])}: {mismatch.text}")
        lines += mismatch.difference
    return lines


_NOTIFICATION_TEXTS: dict[str, str] = {
    CaseStatus.UNDECIDED: "There was no decision in time.",
    CaseStatus.UNREADABLE: "The suite, or something that it names, cannot be used.",
}


class SuiteSarifOutput:
    """Writes the log at the end; memory holds the mismatches."""

    def __init__(self, stream: BinaryIO) -> None:
        """Write UTF-8 to ``stream``."""
        self._stream = stream
        self._results: list[JSONObject] = []
        self._notifications: list[JSONObject] = []
        self._rules: dict[str, str] = {}

    def write(self, result: CaseResult) -> None:
        """Keep a result for each mismatch, and a notification for a case that could not run."""
        self._results += [self._result(result, mismatch) for mismatch in result.mismatches]
        if result.error is not None:
            self._notifications.append(notification(result.status.value, result.error, result.case.full_name))

    def write_problem(self, error: InputError) -> None:
        """Keep a notification for an unreadable suite."""
        self._notifications.append(notification(CaseStatus.UNREADABLE.value, error))

    def finish(self, score: SuiteCounts, coverage: Coverage | None) -> None:  # noqa: ARG002 - a log has no place for coverage
        """Write the log."""
        rules = [
            {"id": rule, "name": rule, "shortDescription": {"text": name}}
            for rule, name in self._rules.items()
        ]
        properties = run_properties(rules, self._notifications, _NOTIFICATION_TEXTS)
        self._stream.write(sarif_log({"results": self._results, **properties}))
        self._stream.flush()

    def _result(self, result: CaseResult, mismatch: ExpectationMismatch) -> JSONObject:
        case = result.case
        rule, member = encodable(case.full_name), path_text(mismatch.path[len(case.path) :])
        self._rules.setdefault(rule, encodable(case.name))
        identity = fingerprint(relative_path(case.document.file) or "", rule, member)
        return {
            "ruleId": rule,
            "ruleIndex": list(self._rules).index(rule),
            "level": "error",
            "message": {"text": encodable(mismatch.text)},
            **locations(case.document.file, result.position(mismatch), case.full_name, member),
            "partialFingerprints": {"mismatch/v1": identity},
        }
