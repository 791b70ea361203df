"""The output formats of ``pratique test``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import BinaryIO, TextIO

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.source_documents import display_path
from pratique_cli.encoding import dump_yaml, indented_json, json_line
from pratique_cli.outputs.changes import ChangeTracker, path_text
from pratique_cli.outputs.texts import StepWriter
from pratique_cli.suites.cases import CaseResult, CaseStatus, ExpectationMismatch, SuiteCounts
from pratique_cli.suites.coverage import Coverage, CoverageEntry, coverage_lines
from pratique_cli.suites.running import SuiteOutput
from pratique_cli.terminal import Palette, palette_for, printable
from pratique_frontdoor.chain.decision_documents import to_document
from pratique_frontdoor.recording.redaction import concerns_secret


def result_document(result: CaseResult) -> JSONObject:
    """Make the document of one result; it has the decision only if that is not as expected."""
    case, observed = result.case, result.observed
    decision = observed.decision if observed and result.mismatches else None
    return {
        "suite": case.suite,
        "name": case.name,
        "file": case.document.file,
        "line": case.line,
        "outcome": result.status.value,
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
        "notRun": score.not_run,
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
        element = indented_json(result_document(result)).rstrip()
        self._stream.write(self._before + element)
        self._stream.flush()
        self._before = b",\n"

    def write_problem(self, error: InputError) -> None:
        """Keep a problem for the end."""
        self._problems.append(error)

    def finish(self, score: SuiteCounts, coverage: Coverage | None) -> None:
        """Write the other members."""
        rest = indented_json(score_document(score, self._problems, coverage))
        beginning = b"\n]" if self._before == b",\n" else b'{"results": []'
        self._stream.write(beginning + b"," + rest.removeprefix(b"{"))
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

    def write_problem(self, error: InputError) -> None:
        """Keep a problem for the end."""
        self._problems.append(error)

    def finish(self, score: SuiteCounts, coverage: Coverage | None) -> None:
        """Write the last document."""
        self._put(score_document(score, self._problems, coverage))

    def _put(self, document: JSONObject) -> None:
        self._stream.write(self._dump(document))
        self._stream.flush()


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
            review = result.observed.review
            received, secret = ChangeTracker(review.object_document.data), concerns_secret(review)
            lines += self._steps.lines(result.observed.decision.steps, received, secret=secret)
        for mismatch in result.mismatches:
            lines += self._mismatch(result, mismatch)
        self._stream.write("\n".join([*lines, ""]))
        self._stream.flush()

    def _headline(self, result: CaseResult) -> str:
        paint, case = self._palette.paint, result.case
        mark, styles = _HEADLINES[result.status]
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

    def write_problem(self, error: InputError) -> None:
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
            (score.not_run, "not run"),
        ):
            if count:
                parts.append(paint(f"{count} {word}", "red", "bold"))
        return ", ".join(parts)


def open_suite_output(name: str, *, verbose: bool, colour: bool | None) -> SuiteOutput:
    """Make the output for a format of ``pratique_cli.options.REVIEW_FORMATS``; it writes to standard output."""
    match name:
        case "text":
            return SuiteTextOutput(sys.stdout, palette_for(sys.stdout, colour=colour), verbose=verbose)
        case "json":
            return SuiteJsonOutput(sys.stdout.buffer)
        case "jsonl" | "yaml":
            return SuiteDocumentsOutput(sys.stdout.buffer, json_line if name == "jsonl" else _yaml_document)
        case _:
            from pratique_cli.suites import ci_outputs  # noqa: PLC0415 - brings junitparser

            outputs: dict[str, Callable[[BinaryIO], SuiteOutput]] = {
                "junit": ci_outputs.SuiteJUnitOutput,
                "sarif": ci_outputs.SuiteSarifOutput,
                "github": ci_outputs.SuiteGitHubOutput,
            }
            return outputs[name](sys.stdout.buffer)


def _yaml_document(document: JSONObject) -> bytes:
    return b"---\n" + dump_yaml(document).encode()
