"""Texts: a report for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.differences import diff
from pratique.source_documents import shown
from pratique_cli.outputs.changes import ChangeTeller, is_secret
from pratique_cli.outputs.step_texts import StepWriter
from pratique_cli.palettes import printable
from pratique_cli.proofs.checks import LaterCheck
from pratique_cli.proofs.verdicts import QUESTIONS, TITLES, verdict
from pratique_cli.yaml_texts import dump_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frontdoor.mutator_sets import Mutator
    from pratique.json_values import JSON
    from pratique_cli.palettes import Palette
    from pratique_cli.proofs.findings import Finding, Report
    from pratique_cli.proofs.violations import Run

HEADS = ("ACTED", "DECIDES", "DETERMINISTIC", "IDEMPOTENT", "ANY ORDER", "NO CONFLICT", "VALIDATED")
"""The columns of the table beside the mutators' names."""
_MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("·", "dim")}
_INDENT = " " * 4


def report_text(report: Report, palette: Palette) -> str:
    """A table of the mutators, each finding, and what that comes to."""
    lines = [*_table(report, palette), ""]
    for number, finding in enumerate(report.findings, start=1):
        lines += [*_finding(number, finding, report, palette), ""]
    return "\n".join([*lines, _conclusion(report, palette), ""])


def _table(report: Report, palette: Palette) -> Iterator[str]:
    """Those that did something or are not Pratique's own; the others in one line."""
    told = [one for one in report.mutators if report.acted.get(one, 0) or not one.placed]
    rows: list[tuple[Mutator | None, str, str]] = [
        (one, printable(str(one)), str(report.acted.get(one, 0))) for one in told
    ]
    rows.append((None, "all together", ""))
    width = max(len(name) for _, name, _ in rows)
    yield palette.paint(f"{'MUTATOR':<{width}}  {'  '.join(HEADS)}", "bold")
    for mutator, name, acted in rows:
        yield f"{name:<{width}}  {acted:>{len(HEADS[0])}}  {_marks(report, mutator, palette)}".rstrip()
    idle = [one.name for one in report.mutators if one not in told]
    if idle:
        yield palette.paint(f"{palette.mark('·')} did nothing: {', '.join(idle)}", "dim")


def _marks(report: Report, mutator: Mutator | None, palette: Palette) -> str:
    cells = []
    for question, head in zip(QUESTIONS, HEADS[1:], strict=True):
        mark, style = _MARKS[verdict(report, mutator, question)]
        cells.append(palette.paint(palette.mark(mark), style) + " " * (len(head) - len(palette.mark(mark))))
    return "  ".join(cells)


def _finding(number: int, finding: Finding, report: Report, palette: Palette) -> Iterator[str]:
    violation = finding.violation
    title = palette.paint(f"{palette.mark('✗')} {number}. {TITLES[violation.defect]}", "red", "bold")
    names = " and ".join(palette.paint(printable(str(one)), "bold") for one in violation.mutators)
    yield f"{title}: {names}"
    yield f"{_INDENT}{printable(violation.text)}"
    if violation.fields:
        yield f"{_INDENT}fields: {printable(', '.join(violation.fields))}"
    often = f", seen with {finding.seen} of {_counted(report.tried)}"
    yield f"{_INDENT}{_origin(finding)}{'' if isinstance(violation.check, LaterCheck) else often}:"
    yield from (
        f"{_INDENT}  {printable(line)}" for line in dump_yaml(_showable(finding.document)).splitlines()
    )
    for run in violation.runs:
        yield from _run(run, palette)


def _origin(finding: Finding) -> str:
    source = finding.case.source
    made = "made up" if source is None else f"from {printable(shown(source.file))}:{source.line}"
    return f"{finding.case.operation.value} of an object {made}"


def _run(run: Run, palette: Palette) -> Iterator[str]:
    yield f"{_INDENT}{palette.paint(printable(run.label), 'cyan')}:"
    teller, writer = ChangeTeller(run.before), StepWriter(palette, verbose=False)
    secret = teller.is_secret
    changes = teller.tell(diff(run.before, run.after))
    yield from (writer.change(change, secret=secret) for change in changes)
    if run.refusal:
        yield f"{_INDENT * 2}  {palette.paint('refused: ' + printable(run.refusal), 'red')}"
    elif not changes:
        yield f"{_INDENT * 2}  {palette.paint('nothing changes', 'dim')}"


def _showable(document: JSON) -> JSON:
    """A Secret without what it holds."""
    if not is_secret(document):
        return document
    hidden = {
        field: dict.fromkeys(document[field], "***")
        for field in ("data", "stringData")
        if isinstance(document.get(field), dict)
    }
    return document | hidden


def _conclusion(report: Report, palette: Palette) -> str:
    made = ", ".join(f"{number} {kind}" for kind, number in report.made.items())
    tried = f"{_counted(report.tried)} ({report.given} given, {sum(report.made.values())} generated"
    tried += f": {made})" if made else ")"
    refused = f"; {report.refused} of them refused as they came" if report.refused else ""
    if report.trouble:
        return palette.paint(f"not proved: {printable(report.trouble)}", "red", "bold")
    if report.findings:
        found = palette.paint(_number(report.findings, "finding"), "red", "bold")
        return f"{found} in {tried}{refused}; seed {report.seed}"
    return f"{palette.paint('held', 'green', 'bold')} for {tried}{refused}; seed {report.seed}"


def _counted(number: int) -> str:
    return f"{number} object{'' if number == 1 else 's'}"


def _number(items: Sequence[object], name: str) -> str:
    return f"{len(items)} {name}{'' if len(items) == 1 else 's'}"
