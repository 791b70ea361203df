"""``-o junit``: the XML report of JUnit, as Jenkins, GitLab and others read it.

A report is written case by case, so that memory does not grow with the input.
"""

from __future__ import annotations

import io
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from typing import BinaryIO, TypeAlias, TypeVar
from xml.etree import ElementTree as ET

import junitparser
import msgspec

from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.source_documents import display_path
from pratique_cli.outputs import ReviewCounts, ReviewedDocument, UndecidedDocument, controller_summary
from pratique_cli.outputs.changes import subject
from pratique_cli.outputs.findings import findings
from pratique_cli.terminal import COMMANDS
from pratique_frontdoor.chain.decisions import Decision

Part: TypeAlias = junitparser.Failure | junitparser.Error | junitparser.SystemOut
"""What a case contains."""
ResultT = TypeVar("ResultT", junitparser.Failure, junitparser.Error)

_IN_MEMORY_BYTES = 1 << 20
"""The size above which the cases of a suite wait in a temporary file: the suite's counts are written before them."""

# XML 1.0 (section 2.2) cannot represent these. It could represent DEL and the C1 controls, but terminals obey them.
_UNPRINTABLE = pattern("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_COMMAND_LINE = pattern(r"^([^\S\n]*):(?=:)", re.MULTILINE)
"""The first colon of a line that GitHub Actions would take for a command to itself."""

HEAD = b'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="pratique">\n'
TAIL = b"</testsuites>\n"


class _TestCase(junitparser.TestCase):
    time = junitparser.Attr()  # not the library's float: it may have an exponent, which Jenkins refuses

    def to_xml(self) -> bytes:
        """Serialise the case, indented for its place in the report."""
        ET.indent(self._elem, level=2)
        # A literal carriage return can only come from text, where a parser would turn it into a line feed.
        return b"    " + _serialised(self).replace(b"\r", b"&#13;") + b"\n"


class _TestSuite(junitparser.TestSuite):
    time = junitparser.Attr()  # as above

    def start_tag(self) -> bytes:
        """Serialise the start tag alone."""
        return b"  " + _serialised(self).removesuffix(b" />") + b">\n"


def _serialised(element: _TestCase | _TestSuite) -> bytes:
    """Serialise without the XML declaration, which the standard library puts before every element."""
    xml: bytes = element.tostring()  # type: ignore[no-untyped-call]  # junitparser's own
    xml = xml.partition(b"?>\n")[2] if xml.startswith(b"<?xml") else xml
    return _COMMAND_LINE.sub(r"\1&#58;", COMMANDS.sub("&#35;", xml.decode())).encode()


def failure(kind: str, message: str, body: str) -> junitparser.Failure:
    """Make the failure of a case."""
    return _filled(junitparser.Failure(), kind, message, body)


def error(kind: str, message: str) -> junitparser.Error:
    """Make the error of a case."""
    return _filled(junitparser.Error(), kind, message, message)


def system_out(text: str) -> junitparser.SystemOut:
    """Make the output of a case."""
    return junitparser.SystemOut(_printable(text))


def _filled(result: ResultT, kind: str, message: str, body: str) -> ResultT:
    result.type, result.message, result.text = _printable(kind), _printable(message), _printable(body)
    return result


def _printable(text: str) -> str:
    """Escape what XML cannot represent, as Python string literals do."""
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class JUnitSuite(msgspec.Struct):
    """The cases of one file."""

    file: str
    tests: int = 0
    failures: int = 0
    errors: int = 0
    seconds: float = 0.0
    names: Counter[str] = msgspec.field(default_factory=Counter)
    """How often each name occurs. It grows with the input, as the store of admitted objects does."""
    cases: tempfile.SpooledTemporaryFile[bytes] = msgspec.field(
        default_factory=lambda: tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115 - closed by write_to
    )

    def add(self, name: str, seconds: float, parts: Sequence[Part] = (), class_name: str = "") -> None:
        """Add a case.

        Readers identify cases by name from one run to the next, so names hold no line numbers, and repeated names get
        a number. ``class_name`` defaults to the file.
        """
        self.names[name] += 1
        self.tests += 1
        self.failures += sum(isinstance(part, junitparser.Failure) for part in parts)
        self.errors += sum(isinstance(part, junitparser.Error) for part in parts)
        self.seconds += round(seconds, 6)  # as written, so that the times add up
        if self.names[name] > 1:
            name += f" ({self.names[name]})"
        case = _TestCase(_printable(name), _printable(class_name or display_path(self.file)))
        case.time = f"{seconds:.6f}"
        for part in parts:
            case.append(part)  # type: ignore[no-untyped-call]  # junitparser's own
        self.cases.write(case.to_xml())

    def write_to(self, stream: BinaryIO) -> None:
        """Write the suite, and release its cases."""
        suite = _TestSuite(_printable(display_path(self.file)))
        suite.tests, suite.failures, suite.errors, suite.skipped = self.tests, self.failures, self.errors, 0
        suite.time = f"{self.seconds:.6f}"
        stream.write(suite.start_tag())
        with self.cases as cases:
            cases.seek(0)
            shutil.copyfileobj(cases, stream)
        stream.write(b"  </testsuite>\n")
        stream.flush()


class JUnitOutput:
    """Writes the suite of each file as soon as the next file begins."""

    def __init__(self, stream: BinaryIO, *, blame: bool = False) -> None:
        """Write UTF-8 to ``stream``; ``blame`` adds to denials which step last changed the field."""
        self._stream = stream
        self._blame = blame
        self._suite: JUnitSuite | None = None
        # Written with the first suite: a run that cannot start writes no report.
        self._head = HEAD

    def write(self, reviewed: ReviewedDocument) -> None:
        """Add a case."""
        suite, decision = self._suite_of(reviewed.document.file), reviewed.decision
        denials = [item.status for item in (decision, *decision.expanded) if item.status is not None]
        found = [
            (finding, f"{display_path(suite.file)}:{finding.place.line}: {finding.origin}")
            for finding in findings(reviewed, blame=self._blame)
        ]
        parts: list[Part] = []
        if denials:
            body = "\n".join(
                f"{place}: {finding.message}" for finding, place in found if finding.level == "error"
            )
            parts.append(failure(denials[0].reason or str(denials[0].code), denials[0].message, body))
        warnings = "\n".join(
            f"{place}: warning: {finding.text}" for finding, place in found if finding.level == "warning"
        )
        if warnings:
            parts.append(system_out(warnings))
        suite.add(subject(reviewed.review), _seconds(decision), parts)

    def write_problem(self, problem: UndecidedDocument) -> None:
        """Add a case that is an error, because the decision is unknown."""
        suite, place = self._suite_of(problem.error.file), problem.error.place
        unnamed = "document" if place is None else f"document at line {place.line}"
        name = subject(problem.review) if problem.review else unnamed
        suite.add(name, 0.0, [error("undecided" if problem.review else "unreadable", str(problem.error))])

    def _suite_of(self, file: str) -> JUnitSuite:
        if self._suite is None or self._suite.file != file:
            self._end_suite()
            self._suite = JUnitSuite(file)
        return self._suite

    def _end_suite(self) -> None:
        self._stream.write(self._head)
        self._head = b""
        if self._suite is not None:
            self._suite.write_to(self._stream)
            self._suite = None

    def finish(self, counts: ReviewCounts) -> None:  # noqa: ARG002 - the suites have their own counts
        """Write the last suite and the end."""
        self._end_suite()
        self._stream.write(TAIL)
        self._stream.flush()


def _seconds(decision: Decision) -> float:
    return sum(decision.phase_seconds.values()) + sum(map(_seconds, decision.expanded))


def catalogue_junit(controllers: Sequence[JSONObject]) -> bytes:
    """Write a suite with a case for each controller, with its summary as output."""
    stream, suite = io.BytesIO(), JUnitSuite("plugins")
    for controller in controllers:
        suite.add(controller["name"], 0.0, [system_out(controller_summary(controller))])
    stream.write(HEAD)
    suite.write_to(stream)
    stream.write(TAIL)
    return stream.getvalue()
