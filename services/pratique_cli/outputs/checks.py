"""The output formats of ``pratique check``: every problem, warning and violation with its file and line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import junitparser
import msgspec

from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.source_documents import Position
from pratique.lint.rules import LintFinding
from pratique_cli.encoding import encode_list
from pratique_cli.outputs.columns import Column, Row, table_text
from pratique_cli.outputs.findings import encodable
from pratique_cli.outputs.github import annotation
from pratique_cli.outputs.junit import failure
from pratique_cli.outputs.sarif import fingerprint, locations, run_properties, sarif_log
from pratique_cli.terminal import Palette, printable

_PLACE = pattern(
    r"(?P<file>.+?): document \d+\b.*?\bline (?P<line>\d+)(?:, column (?P<column>\d+))?", re.DOTALL
)
"""How messages about documents name the place, in all their forms."""
_BEGINNING = pattern(r": document \d+(, line \d+(, column \d+)?)?: (warning: )?")
"""What follows the file in most messages, and is said by the fields of a finding."""
_INVALID, _WARNING = "invalid", "warning"
_OWN_RULES = {
    _INVALID: "An API server would refuse the configuration, or it cannot be read.",
    _WARNING: "An API server would warn of the configuration, or part of it has no effect.",
}
"""What is found beside the rules of good practice, as rules of a report."""
_COLUMNS = (Column("LEVEL"), Column("RULE"), Column("PLACE", keep=False), Column("MESSAGE", keep=False))
_STYLES = {"error": ("red", "bold"), "warning": ("yellow",), "info": ()}
_SARIF_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_GITHUB_LEVELS = {"error": "error", "warning": "warning", "info": "notice"}


class CheckFinding(msgspec.Struct, frozen=True):
    """Something that a check has found."""

    level: str
    """``error``, ``warning`` or ``info``."""
    rule: str
    """The rule of good practice; ``invalid`` or ``warning`` for what an API server would say."""
    message: str
    """What is wrong, with its place in words."""
    fix: str = ""
    """What would be right; only rules of good practice know."""
    subject: str = ""
    """The object, such as ``webhook "a" of MutatingWebhookConfiguration "b"``; only with a rule."""
    file: str = ""
    """The file; empty if the finding is of none."""
    place: Position | None = None


def check_findings(
    problems: Iterable[str], warnings: Iterable[str], findings: Iterable[LintFinding]
) -> list[CheckFinding]:
    """Put everything that a check found into one form, the worst first."""
    return [
        *(_of_text(text, "error", _INVALID) for text in problems),
        *(_of_text(text, "warning", _WARNING) for text in warnings),
        *map(_of_lint, findings),
    ]


def _of_text(text: str, level: str, rule: str) -> CheckFinding:
    found = _PLACE.match(text)
    if found is None:
        return CheckFinding(level, rule, text)
    place = Position(int(found["line"]), int(found["column"] or 1))
    beginning = _BEGINNING.match(text, found.end("file"))
    message = text if beginning is None else text[beginning.end() :]
    return CheckFinding(level, rule, message, file=found["file"], place=place)


def _of_lint(finding: LintFinding) -> CheckFinding:
    rule, violation = finding.lint_rule, finding.violation
    source = violation.owner.source
    return CheckFinding(
        rule.severity.value,
        rule.name,
        f"{finding.subject}: {violation.text}",
        rule.fix,
        finding.subject,
        "" if source is None else source.file,
        None if source is None else source.position(violation.path),
    )


def encode_findings(findings: Sequence[CheckFinding], output: str) -> bytes:
    """Encode findings in a format for programs."""
    return _ENCODERS[output](findings)


def _documents(findings: Sequence[CheckFinding], output: str) -> bytes:
    documents: list[JSONObject] = [
        {
            "level": finding.level,
            "rule": finding.rule,
            "message": finding.message,
            "fix": finding.fix,
            "subject": finding.subject,
            "file": finding.file,
            "line": None if finding.place is None else finding.place.line,
            "column": None if finding.place is None else finding.place.column,
        }
        for finding in findings
    ]
    return encode_list(documents, output)


def _github(findings: Sequence[CheckFinding]) -> bytes:
    return b"".join(
        annotation(_GITHUB_LEVELS[finding.level], finding.file, finding.place, finding.rule, _told(finding))
        for finding in findings
    )


def _told(finding: CheckFinding) -> str:
    return f"{finding.message}\nfix: {finding.fix}" if finding.fix else finding.message


def _sarif(findings: Sequence[CheckFinding]) -> bytes:
    rules = {finding.rule: finding.fix for finding in findings}
    descriptors: list[JSONObject] = [
        {"id": name, "shortDescription": {"text": _OWN_RULES.get(name) or fix}} for name, fix in rules.items()
    ]
    results = [
        {
            "ruleId": finding.rule,
            "ruleIndex": list(rules).index(finding.rule),
            "level": _SARIF_LEVELS[finding.level],
            "message": {"text": encodable(_told(finding))},
            **locations(finding.file, finding.place, finding.subject),
            "partialFingerprints": {
                "finding/v1": fingerprint(finding.rule, finding.file, finding.subject, finding.message)
            },
        }
        for finding in findings
    ]
    return sarif_log({"results": results, **run_properties(descriptors, [], {})})


def _junit(findings: Sequence[CheckFinding]) -> bytes:
    """Write a case for each finding, which fails unless it is for information; and one that passes if there is none."""
    suite = junitparser.TestSuite("pratique check")
    for finding in findings:
        case = junitparser.TestCase(name=printable(f"{finding.rule}: {finding.subject or finding.message}"))
        case.classname = printable(finding.file)
        if finding.level != "info":
            case.result = [failure(finding.rule, finding.message, _told(finding))]
        suite.add_testcase(case)
    if not findings:
        suite.add_testcase(junitparser.TestCase(name="no problems found"))
    report = junitparser.JUnitXml("pratique")
    report.add_testsuite(suite)
    written: bytes = report.tostring()  # type: ignore[no-untyped-call]  # junitparser's own
    return written + b"\n"


def findings_table(findings: Sequence[CheckFinding], palette: Palette) -> str:
    """Lay out findings as a table, for a stream with this palette."""
    return table_text(_COLUMNS, [Row(_cells(one), _STYLES[one.level]) for one in findings], palette)


def _cells(finding: CheckFinding) -> tuple[str, str, str, str]:
    where = "" if finding.place is None else f"{finding.file}:{finding.place.line}"
    return finding.level, finding.rule, where, finding.message.partition("\n")[0]


_ENCODERS: Mapping[str, Callable[[Sequence[CheckFinding]], bytes]] = {
    "json": lambda findings: _documents(findings, "json"),
    "jsonl": lambda findings: _documents(findings, "jsonl"),
    "yaml": lambda findings: _documents(findings, "yaml"),
    "junit": _junit,
    "sarif": _sarif,
    "github": _github,
}
