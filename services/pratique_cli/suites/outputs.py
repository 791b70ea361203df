"""The output formats of ``pratique test``."""

from __future__ import annotations

import hashlib
import importlib.metadata
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSONObject, encode
from pratique.apimachinery.source_documents import display_path
from pratique_cli.outputs.findings import relative_path
from pratique_cli.outputs.github import annotation
from pratique_cli.outputs.junit import HEAD, JUnitSuite, problem
from pratique_cli.outputs.sarif import ROOT, SCHEMA, encodable, locations
from pratique_cli.outputs.texts import ChangeTracker, StepWriter, path_text
from pratique_cli.suites.cases import CaseResult, CaseStatus, ExpectationMismatch, SuiteCounts
from pratique_cli.suites.coverage import Coverage, CoverageEntry, coverage_lines
from pratique_cli.suites.running import SuiteOutput
from pratique_cli.terminal import Palette, printable
from pratique_frontdoor.chain.decisions import to_document

if TYPE_CHECKING:
    from typing import BinaryIO, TextIO


def result_document(result: CaseResult) -> JSONObject:
    """Make the document of one result; it has the decision only if that is not as expected."""
    case, observed = result.case, result.observed
    decision = observed.decision if observed and result.mismatches else None
    return {
        "suite": case.suite,
        "name": case.name,
        "file": case.document.file,
        "line": case.line,
        "outcome": result.ending.value,
        "durationMs": round(result.seconds * 1000, 3),
        "mismatches": [_mismatch(result, mismatch) for mismatch in result.mismatches],
        "error": None if result.error is None else str(result.error),
        "decision": None if decision is None else to_document(decision),
    }


def _mismatch(result: CaseResult, mismatch: ExpectationMismatch) -> JSONObject:
    place = result.position(mismatch)
    return {
        "member": path_text(mismatch.path[len(result.case.path) :]),
        "line": place.line,
        "column": place.column,
        "expected": mismatch.expected,
        "got": mismatch.got,
        "difference": list(mismatch.difference),
    }


def score_document(score: SuiteCounts, problems: list[InputError], coverage: Coverage | None) -> JSONObject:
    """Make the document of the whole run."""
    summary = {
        "passed": score.passed,
        "failed": score.failed,
        "unreadable": score.unreadable,
        "undecided": score.undecided,
        "notRun": score.left,
    }
    document: JSONObject = {"summary": summary, "problems": [_problem(item) for item in problems]}
    if coverage is not None:
        entries = [_entry(item) for item in coverage.entries]
        document["coverage"] = {"percent": round(coverage.percent, 1), "entries": entries}
    return document


def _problem(error: InputError) -> JSONObject:
    place = {} if error.place is None else {"line": error.place.line, "column": error.place.column}
    return {"file": error.file, **place, "text": str(error)}


def _entry(entry: CoverageEntry) -> JSONObject:
    written = {} if entry.source is None else {"file": entry.source.file, "line": entry.line}
    return {
        "kind": entry.kind,
        "name": entry.name,
        **written,
        **({"expression": entry.expression} if entry.expression else {}),
        "matched": entry.matched,
        "denied": entry.denied,
        "mutated": entry.mutated,
        "warned": entry.warned,
        "audited": entry.audited,
    }


class SuiteJsonOutput:
    """``-o json``: one object, whose members are written as soon as they are known."""

    def __init__(self, stream: BinaryIO) -> None:
        """Write UTF-8 to ``stream``."""
        self._stream = stream
        self._problems: list[InputError] = []
        self._before = b'{"results": [\n'

    def write(self, result: CaseResult) -> None:
        """Write one element of ``results``."""
        element = msgspec.json.format(encode(result_document(result)), indent=2)
        self._stream.write(self._before + element)
        self._stream.flush()
        self._before = b",\n"

    def miss(self, error: InputError) -> None:
        """Keep a problem for the end."""
        self._problems.append(error)

    def finish(self, score: SuiteCounts, coverage: Coverage | None) -> None:
        """Write the other members."""
        rest = msgspec.json.format(encode(score_document(score, self._problems, coverage)), indent=2)
        beginning = b"\n]" if self._before == b",\n" else b'{"results": []'
        self._stream.write(beginning + b"," + rest.removeprefix(b"{") + b"\n")
        self._stream.flush()


class SuiteDocumentsOutput:
    """``-o jsonl`` and ``yaml``: one document for each case, then one for the whole run."""

    def __init__(self, stream: BinaryIO, dump: Callable[[JSONObject], bytes]) -> None:
        """Write UTF-8 to ``stream``, with ``dump`` encoding each document."""
        self._stream = stream
        self._dump = dump
        self._problems: list[InputError] = []

    def write(self, result: CaseResult) -> None:
        """Write one document."""
        self._put(result_document(result))

    def miss(self, error: InputError) -> None:
        """Keep a problem for the end."""
        self._problems.append(error)

    def finish(self, score: SuiteCounts, coverage: Coverage | None) -> None:
        """Write the last document."""
        self._put(score_document(score, self._problems, coverage))

    def _put(self, document: JSONObject) -> None:
        self._stream.write(self._dump(document))
        self._stream.flush()


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
            title = f"{result.ending.value}: {case.full_name}"
            error = result.error
            self._put(annotation("error", error.file, error.place, title, str(error)))

    def miss(self, error: InputError) -> None:
        """Write an error."""
        self._put(annotation("error", error.file, error.place, "unreadable", str(error)))

    def finish(self, score: SuiteCounts, coverage: Coverage | None) -> None:  # noqa: ARG002 - the counts are not annotations
        """Write a notice for each unused entry."""
        for entry in coverage.entries if coverage is not None else ():
            if entry.source is not None and not entry.acted:
                told = "it matches cases, but has no effect in any" if entry.matched else "no case matches it"
                place = entry.source.position(entry.path)
                title = f"not covered: {entry.kind} {entry.name}"
                self._put(annotation("notice", entry.source.file, place, title, told))

    def _put(self, line: bytes) -> None:
        self._stream.write(line)
        self._stream.flush()


class SuiteJUnitOutput:
    """Writes the report at the end, because a file's unreadable suites come before its cases."""

    def __init__(self, stream: BinaryIO) -> None:
        """Write UTF-8 to ``stream``."""
        self._stream = stream
        self._suites: dict[str, JUnitSuite] = {}

    def write(self, result: CaseResult) -> None:
        """Add a case."""
        case = result.case
        suite = self._suite(case.document.file)
        parts = []
        if result.mismatches:
            suite.failures += 1
            body = "\n".join(_failure_lines(result))
            parts.append(problem("failure", "mismatch", result.mismatches[0].text, body))
        if result.ending in {CaseStatus.UNREADABLE, CaseStatus.UNDECIDED}:
            suite.errors += 1
            parts.append(problem("error", result.ending.value, str(result.error), str(result.error)))
        suite.add(case.name, result.seconds, parts, case.suite)

    def miss(self, error: InputError) -> None:
        """Add a case that is an error."""
        suite = self._suite(error.file)
        suite.errors += 1
        name = "suite" if error.place is None else f"suite at line {error.place.line}"
        suite.add(name, 0.0, [problem("error", CaseStatus.UNREADABLE.value, str(error), str(error))])

    def finish(self, score: SuiteCounts, coverage: Coverage | None) -> None:  # noqa: ARG002 - the suites count for themselves
        """Write all suites."""
        self._stream.write(HEAD)
        for suite in self._suites.values():
            suite.end(self._stream)
        self._stream.write(b"</testsuites>\n")
        self._stream.flush()

    def _suite(self, file: str) -> JUnitSuite:
        return self._suites.setdefault(file, JUnitSuite(file))


def _failure_lines(result: CaseResult) -> list[str]:
    lines = []
    for mismatch in result.mismatches:
        place = f"{display_path(result.case.document.file)}:{result.position(mismatch).line}"
        lines.append(f"{place}: {path_text(mismatch.path[len(result.case.path) :])}: {mismatch.text}")
        lines += mismatch.difference
    return lines


_NOTIFICATION_TEXTS = {
    CaseStatus.UNDECIDED: "There was no decision in time.",
    CaseStatus.UNREADABLE: "The suite, or what it names, cannot be used.",
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
            self._notify(result.ending, result.error, result.case.full_name)

    def miss(self, error: InputError) -> None:
        """Keep a notification for an unreadable suite."""
        self._notify(CaseStatus.UNREADABLE, error, "")

    def finish(self, score: SuiteCounts, coverage: Coverage | None) -> None:  # noqa: ARG002 - a log has no place for coverage
        """Write the log."""
        invocation: JSONObject = {"executionSuccessful": not self._notifications}
        if self._notifications:
            invocation["toolExecutionNotifications"] = self._notifications
        run = {
            "results": self._results,
            "columnKind": "unicodeCodePoints",
            "originalUriBaseIds": {ROOT: {"description": {"text": "The folder in which pratique ran."}}},
            "invocations": [invocation],
            "tool": {"driver": self._driver()},
        }
        log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
        self._stream.write(msgspec.json.format(encode(log), indent=2) + b"\n")
        self._stream.flush()

    def _notify(self, ending: CaseStatus, error: InputError, about: str) -> None:
        self._notifications.append(
            {
                "level": "error",
                "descriptor": {"id": ending.value},
                "message": {"text": encodable(str(error))},
                **locations(error.file, error.place, about),
            }
        )

    def _result(self, result: CaseResult, mismatch: ExpectationMismatch) -> JSONObject:
        case = result.case
        rule, member = encodable(case.full_name), path_text(mismatch.path[len(case.path) :])
        self._rules.setdefault(rule, encodable(case.name))
        known = (relative_path(case.document.file) or "", rule, member)
        fingerprint = hashlib.sha256("\0".join(map(encodable, known)).encode()).hexdigest()
        return {
            "ruleId": rule,
            "ruleIndex": list(self._rules).index(rule),
            "level": "error",
            "message": {"text": encodable(mismatch.text)},
            **locations(case.document.file, result.position(mismatch), case.full_name, member),
            "partialFingerprints": {"mismatch/v1": fingerprint},
        }

    def _driver(self) -> JSONObject:
        ids = {notification["descriptor"]["id"] for notification in self._notifications}
        descriptors = [
            {"id": kind.value, "shortDescription": {"text": _NOTIFICATION_TEXTS[kind]}}
            for kind in _NOTIFICATION_TEXTS
            if kind in ids
        ]
        return {
            "name": "pratique",
            "version": importlib.metadata.version("pratique"),
            "rules": [
                {"id": rule, "name": rule, "shortDescription": {"text": name}}
                for rule, name in self._rules.items()
            ],
            **({"notifications": descriptors} if descriptors else {}),
        }


_HEADLINES = {
    CaseStatus.PASSED: ("✓ passed", ("green", "bold")),
    CaseStatus.FAILED: ("✗ failed", ("red", "bold")),
    CaseStatus.UNREADABLE: ("! unreadable", ("red", "bold")),
    CaseStatus.UNDECIDED: ("! undecided", ("red", "bold")),
}
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


class SuiteTextOutput:
    """Writes one line for each case with its mismatches below, and the coverage at the end."""

    def __init__(self, stream: TextIO, palette: Palette, *, verbose: bool = False) -> None:
        """Write to ``stream``; ``verbose`` shows the steps of every case."""
        self._stream = stream
        self._palette = palette
        self._steps = StepWriter(palette, verbose=verbose)
        self._verbose = verbose

    def write(self, result: CaseResult) -> None:
        """Write one case; standard error reports why a case could not run."""
        lines = [self._headline(result)]
        if self._verbose and result.observed is not None:
            received = ChangeTracker(result.observed.review.object_document.data)
            lines += self._steps.lines(result.observed.decision.steps, received)
        for mismatch in result.mismatches:
            lines += self._mismatch(result, mismatch)
        self._stream.write("\n".join([*lines, ""]))
        self._stream.flush()

    def _headline(self, result: CaseResult) -> str:
        paint, case = self._palette.paint, result.case
        mark, styles = _HEADLINES[result.ending]
        verdict = paint(self._palette.mark(mark[0]) + mark[1:], *styles)
        place = paint(f"({printable(display_path(case.document.file))}:{case.line})", "dim")
        return f"{verdict}  {paint(printable(case.full_name), 'bold')}  {place}"

    def _mismatch(self, result: CaseResult, mismatch: ExpectationMismatch) -> Iterator[str]:
        place = f"{display_path(result.case.document.file)}:{result.position(mismatch).line}"
        member = path_text(mismatch.path[len(result.case.path) :])
        yield f"    {self._palette.mark('→')} {printable(place)}  {printable(member)}"
        yield f"        expected  {self._palette.paint(printable(mismatch.expected), 'green')}"
        yield f"        got       {self._palette.paint(printable(mismatch.got), 'red')}"
        for line in mismatch.difference:
            if line.startswith("@@"):
                yield "        " + self._palette.paint(self._palette.mark("…"), "dim")
            else:
                colour = _COLOURS.get(line[:1])
                yield "        " + self._palette.paint(printable(line), *filter(None, [colour]))

    def miss(self, error: InputError) -> None:
        """Write nothing: standard error reports it."""

    def finish(self, score: SuiteCounts, coverage: Coverage | None) -> None:
        """Write the coverage and the counts."""
        lines = []
        if coverage is not None and coverage.entries:
            lines = ["", *coverage_lines(coverage, self._palette), ""]
        self._stream.write("\n".join([*lines, self._summary(score), ""]))
        self._stream.flush()

    def _summary(self, score: SuiteCounts) -> str:
        paint = self._palette.paint
        parts = [f"{score.run} run", f"{score.passed} passed"]
        parts.append(paint(f"{score.failed} failed", *(("red", "bold") if score.failed else ())))
        for count, word in (
            (score.undecided, "undecided"),
            (score.unreadable, "unreadable"),
            (score.left, "not run"),
        ):
            if count:
                parts.append(paint(f"{count} {word}", "red", "bold"))
        return ", ".join(parts)


def open_suite_output(name: str, *, verbose: bool, colour: bool | None) -> SuiteOutput:
    """Make the output for a format of ``pratique_cli.options.REVIEW_FORMATS``; it writes to standard output.

    Only the module of the format is imported.
    """
    match name:
        case "text":
            from pratique_cli.suites.outputs import SuiteTextOutput  # noqa: PLC0415
            from pratique_cli.terminal import palette_for  # noqa: PLC0415

            return SuiteTextOutput(sys.stdout, palette_for(sys.stdout, colour=colour), verbose=verbose)
        case "json":
            from pratique_cli.suites.outputs import SuiteJsonOutput  # noqa: PLC0415

            return SuiteJsonOutput(sys.stdout.buffer)
        case "jsonl" | "yaml":
            from pratique_cli.suites.outputs import SuiteDocumentsOutput  # noqa: PLC0415

            return SuiteDocumentsOutput(sys.stdout.buffer, _json_line if name == "jsonl" else _yaml_document)
        case _:
            return _open_report(name)


def _open_report(name: str) -> SuiteOutput:
    match name:
        case "junit":
            from pratique_cli.suites.outputs import SuiteJUnitOutput  # noqa: PLC0415

            return SuiteJUnitOutput(sys.stdout.buffer)
        case "sarif":
            from pratique_cli.suites.outputs import SuiteSarifOutput  # noqa: PLC0415

            return SuiteSarifOutput(sys.stdout.buffer)
        case _:
            from pratique_cli.suites.outputs import SuiteGitHubOutput  # noqa: PLC0415

            return SuiteGitHubOutput(sys.stdout.buffer)


def _json_line(document: JSONObject) -> bytes:
    return encode(document) + b"\n"


def _yaml_document(document: JSONObject) -> bytes:
    from pratique_cli.terminal import dump_yaml  # noqa: PLC0415

    return b"---\n" + dump_yaml(document).encode()
