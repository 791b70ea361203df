"""Reports of ``pratique prove``: as text, as a document, and as a suite for ``pratique test``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pratique.apimachinery.diff import diff
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.source_documents import display_path
from pratique.configuration.settings import ChainSettings
from pratique.manifests.requests import KUBECTL_USER
from pratique_cli.chain_options import chain_variables
from pratique_cli.encoding import dump_yaml
from pratique_cli.mutator_checks.checks import LaterCheck
from pratique_cli.mutator_checks.defects import CheckReport, Defect, DefectFinding, RunEvidence
from pratique_cli.outputs.changes import ChangeTracker
from pratique_cli.outputs.texts import StepWriter
from pratique_cli.suites.writing import WrittenCase, suite_text
from pratique_cli.terminal import Palette, printable
from pratique_frontdoor.recording.redaction import Masking, is_secret

if TYPE_CHECKING:
    from pratique_frontdoor.engines.mutator_sets import Mutator

QUESTIONS: dict[str, frozenset[Defect]] = {
    "decides": frozenset({Defect.FAILS}),
    "deterministic": frozenset({Defect.NOT_DETERMINISTIC}),
    "idempotent": frozenset({Defect.NOT_IDEMPOTENT, Defect.REFUSES_OWN, Defect.NOT_SETTLED}),
    "inAnyOrder": frozenset({Defect.ORDER, Defect.CONFLICT, Defect.UNDONE}),
    "withoutConflict": frozenset({Defect.CONFLICT, Defect.UNDONE}),
    "validated": frozenset({Defect.REFUSED}),
    "outlivesWriters": frozenset({Defect.WRITER_LOOP, Defect.WRITER_WINS}),
}
"""The questions of the report, with the defects that answer them with no."""

TITLES = {
    Defect.FAILS: "fails",
    Defect.NOT_DETERMINISTIC: "not deterministic",
    Defect.NOT_IDEMPOTENT: "not idempotent",
    Defect.REFUSES_OWN: "refuses its own output",
    Defect.NOT_SETTLED: "not settled",
    Defect.UNDONE: "loop",
    Defect.CONFLICT: "conflict",
    Defect.ORDER: "order matters",
    Defect.REFUSED: "refused by validators",
    Defect.WRITER_LOOP: "loop with a writer",
    Defect.WRITER_WINS: "lost to a writer",
}
"""The names of defects in text."""


def questions(report: CheckReport) -> list[str]:
    """The questions that a report answers: those about writers only if there are any."""
    return [question for question in QUESTIONS if report.writers or question != "outlivesWriters"]


def answer(report: CheckReport, mutator: Mutator | None, question: str) -> bool | None:
    """Answer a question for a mutator, or for all together; None if it did nothing, or if the answer is unknown."""
    against = any(
        finding.violation.defect in QUESTIONS[question]
        and (mutator is None or mutator in finding.violation.mutators)
        for finding in report.findings
    )
    if against:
        return False
    if mutator is not None and mutator.placed and question in {"deterministic", "inAnyOrder"}:
        return None  # built-in mutators may be random, and have a fixed place in the chain
    acted = any(report.acted.values()) if mutator is None else report.acted.get(mutator, 0) > 0
    return True if acted and not report.error else None


def report_document(report: CheckReport) -> JSONObject:
    """Make the document of a report."""
    return {
        "holds": report.holds,
        "objects": {
            "tried": report.tried,
            "given": report.given,
            "generated": dict(report.generated),
            "refused": report.refused,
        },
        "seed": report.seed,
        "mutators": [_mutator(report, mutator) for mutator in report.mutators],
        "writers": list(report.writers),
        "set": {question: answer(report, None, question) for question in questions(report)},
        "findings": [_finding(finding) for finding in report.findings],
        "error": report.error or None,
    }


def _mutator(report: CheckReport, mutator: Mutator) -> JSONObject:
    answers = {question: answer(report, mutator, question) for question in questions(report)}
    return {**mutator_document(mutator), "acted": report.acted.get(mutator, 0), **answers}


def mutator_document(mutator: Mutator) -> JSONObject:
    """The identity of a mutator, as in the steps of decisions."""
    return {
        "controller": mutator.controller,
        "name": mutator.name,
        "configuration": mutator.configuration,
    }


def _finding(finding: DefectFinding) -> JSONObject:
    violation, source = finding.violation, finding.case.source
    return {
        "defect": violation.defect.value,
        "mutators": [mutator_document(mutator) for mutator in violation.mutators],
        "message": violation.text,
        "fields": list(violation.fields),
        "writer": violation.writer or None,
        "growth": violation.growth,
        "period": violation.period,
        "seen": finding.seen,
        "operation": finding.case.operation.value,
        "given": None if source is None else {"file": source.file, "line": source.line},
        "object": finding.document,
        "runs": [_run(run) for run in violation.runs],
    }


def _run(run: RunEvidence) -> JSONObject:
    return {
        "name": run.label,
        "object": run.before,
        "patch": list(diff(run.before, run.after)),
        "refused": run.refusal or None,
    }


HEADS = (
    "ACTED",
    "DECIDES",
    "DETERMINISTIC",
    "IDEMPOTENT",
    "ANY ORDER",
    "NO CONFLICT",
    "VALIDATED",
    "WRITERS",
)
"""The columns of the table after the mutators' names."""
_MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("·", "dim")}
_INDENT = " " * 4


def report_text(report: CheckReport, palette: Palette) -> str:
    """Write a table of the mutators, each finding, and a conclusion."""
    lines = [*_table(report, palette), ""]
    for number, finding in enumerate(report.findings, start=1):
        lines += [*_finding_lines(number, finding, report, palette), ""]
    return "\n".join([*lines, _conclusion(report, palette), ""])


def _table(report: CheckReport, palette: Palette) -> Iterator[str]:
    """Write a row for each mutator that did something or is not built-in, and one line for the others."""
    listed = [mutator for mutator in report.mutators if report.acted.get(mutator, 0) or not mutator.placed]
    rows: list[tuple[Mutator | None, str, str]] = [
        (mutator, printable(str(mutator)), str(report.acted.get(mutator, 0))) for mutator in listed
    ]
    rows.append((None, "all together", ""))
    width = max(len(name) for _, name, _ in rows)
    heads = HEADS[: len(questions(report)) + 1]
    yield palette.paint(f"{'MUTATOR':<{width}}  {'  '.join(heads)}", "bold")
    for mutator, name, acted in rows:
        yield f"{name:<{width}}  {acted:>{len(HEADS[0])}}  {_marks(report, mutator, palette)}".rstrip()
    idle = [mutator.name for mutator in report.mutators if mutator not in listed]
    if idle:
        yield palette.paint(f"{palette.mark('·')} did nothing: {', '.join(idle)}", "dim")


def _marks(report: CheckReport, mutator: Mutator | None, palette: Palette) -> str:
    cells = []
    for question, head in zip(questions(report), HEADS[1:], strict=False):
        mark, style = _MARKS[answer(report, mutator, question)]
        cells.append(palette.paint(palette.mark(mark), style) + " " * (len(head) - len(palette.mark(mark))))
    return "  ".join(cells)


def _finding_lines(
    number: int, finding: DefectFinding, report: CheckReport, palette: Palette
) -> Iterator[str]:
    violation = finding.violation
    title = palette.paint(f"{palette.mark('✗')} {number}. {TITLES[violation.defect]}", "red", "bold")
    writer = [violation.writer] if violation.writer else []
    names = " and ".join(
        palette.paint(printable(str(name)), "bold") for name in (*violation.mutators, *writer)
    )
    yield f"{title}: {names}"
    yield f"{_INDENT}{printable(violation.text)}"
    if violation.fields:
        yield f"{_INDENT}fields: {printable(', '.join(violation.fields))}"
    often = f", seen with {finding.seen} of {_counted(report.tried)}"
    yield f"{_INDENT}{_origin(finding)}{'' if isinstance(violation.check, LaterCheck) else often}:"
    yield from (
        f"{_INDENT}  {printable(line)}"
        for line in dump_yaml(_redacted_document(finding.document)).splitlines()
    )
    for run in violation.runs:
        yield from _run_lines(run, palette)


def _origin(finding: DefectFinding) -> str:
    source = finding.case.source
    name = "a generated object"
    if source is not None:
        name = f"the object from {printable(display_path(source.file))}:{source.line}"
    return f"{finding.case.operation.value} of {name}"


def _run_lines(run: RunEvidence, palette: Palette) -> Iterator[str]:
    yield f"{_INDENT}{palette.paint(printable(run.label), 'cyan')}:"
    tracker, writer = ChangeTracker(run.before), StepWriter(palette, verbose=False)
    secret = is_secret(run.before)
    changes = tracker.apply(diff(run.before, run.after))
    yield from (writer.change(change, secret=secret) for change in changes)
    if run.refusal:
        yield f"{_INDENT * 2}  {palette.paint('refused: ' + printable(run.refusal), 'red')}"
    elif not changes:
        yield f"{_INDENT * 2}  {palette.paint('nothing changes', 'dim')}"


def _redacted_document(document: JSON) -> JSON:
    """Hide the values of a Secret."""
    return Masking().value(document) if is_secret(document) else document


def _conclusion(report: CheckReport, palette: Palette) -> str:
    generated = ", ".join(f"{number} {kind}" for kind, number in report.generated.items())
    tried = f"{_counted(report.tried)} ({report.given} given, {sum(report.generated.values())} generated"
    tried += f": {generated})" if generated else ")"
    refused = f"; {report.refused} of them refused as they came" if report.refused else ""
    if report.error:
        return palette.paint(f"not proved: {printable(report.error)}", "red", "bold")
    if report.findings:
        found = palette.paint(_count_text(report.findings, "finding"), "red", "bold")
        return f"{found} in {tried}{refused}; seed {report.seed}"
    return f"{palette.paint('held', 'green', 'bold')} for {tried}{refused}; seed {report.seed}"


def _counted(number: int) -> str:
    return f"{number} object{'' if number == 1 else 's'}"


def _count_text(items: Sequence[object], name: str) -> str:
    return f"{len(items)} {name}{'' if len(items) == 1 else 's'}"


_EXPECTED: dict[Defect, tuple[str, str, JSONObject]] = {
    Defect.FAILS: ("is decided", "mutate", {"allowed": True}),
    Defect.NOT_IDEMPOTENT: ("is not changed again", "mutate", {"fixedPoint": True}),
    Defect.REFUSES_OWN: ("is let through again", "mutate", {"fixedPoint": True}),
    Defect.NOT_SETTLED: ("is not changed again by others", "mutate", {"fixedPoint": True}),
    Defect.REFUSED: ("is let through by validators", "", {"allowed": True}),
}
"""The name, the phase and the expectation of the case for each defect. The other defects show only with two chains or
at two times, which a case does not have."""


def findings_suite(report: CheckReport, chain: ChainSettings, folder: Path) -> str:
    """Write the findings as a suite, for a file in ``folder``."""
    cases = [
        _case(number, finding)
        for number, finding in enumerate(report.findings, start=1)
        if finding.violation.defect in _EXPECTED
    ]
    return suite_text(
        "proved",
        cases,
        config=chain.config,
        cluster=chain.cluster,
        flags=_flags(chain),
        folder=folder,
        comment=_comment(report),
    )


def has_testable_findings(report: CheckReport) -> bool:
    """Whether a case can express any of the findings."""
    return any(finding.violation.defect in _EXPECTED for finding in report.findings)


def _case(number: int, finding: DefectFinding) -> WrittenCase:
    name, phase, expected = _EXPECTED[finding.violation.defect]
    kind = finding.document.get("kind", "object")
    by = " and ".join(map(str, finding.violation.mutators))
    return WrittenCase(
        name=f"{number}. {by}: a {kind} {name}",
        manifest=finding.document,
        request=_request(finding),
        phase=phase,
        expect=expected,
    )


def _request(finding: DefectFinding) -> JSONObject:
    """The parts of the request that are not in the object."""
    case = finding.case
    request: JSONObject = {}
    if case.operation is not Operation.CREATE:
        request["operation"] = case.operation.value
    if case.recorded is not None:
        recorded = case.recorded
        request["subresource"] = recorded.subresource
        request["namespace"] = recorded.namespace
        if recorded.user != KUBECTL_USER:
            request |= {"user": recorded.user.username, "groups": list(recorded.user.groups)}
        request["old"] = recorded.old_object_document.data
    elif case.operation is Operation.UPDATE:
        request["old"] = finding.document
    if case.dry_run:
        request["dryRun"] = True
    return {name: value for name, value in request.items() if value}


def _comment(report: CheckReport) -> str:
    untestable = [finding for finding in report.findings if finding.violation.defect not in _EXPECTED]
    lines = [f"Found by `pratique prove`, seed {report.seed}. Each case fails until its defect is fixed."]
    for finding in untestable:
        names = " and ".join(map(str, finding.violation.mutators))
        lines.append(f"Also found, but not testable by a case: {TITLES[finding.violation.defect]}: {names}")
    return "\n".join(lines)


def _flags(chain: ChainSettings) -> dict[str, JSON]:
    lists = {
        "enable-admission-plugins": chain.enable_admission_plugins,
        "disable-admission-plugins": chain.disable_admission_plugins,
        "admission-control": chain.admission_control,
    }
    flags: dict[str, JSON] = {name: list(names) for name, names in lists.items() if names}
    if chain.admission_control_config_file is not None:
        # Paths in a suite are relative to it, so make this one absolute.
        flags["admission-control-config-file"] = str(chain.admission_control_config_file.resolve())
    if chain.release is not None:
        flags["release"] = str(chain.release)
    variables = chain_variables(chain).items()
    return flags | {_flag_of_variable(name): value for name, value in variables}


def _flag_of_variable(variable: str) -> str:
    return variable.removeprefix("PRATIQUE_").lower().replace("_", "-")
