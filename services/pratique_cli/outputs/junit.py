"""``-o junit``: the XML report of JUnit, as Jenkins, GitLab and others read it."""

from __future__ import annotations

import dataclasses
import re
import shutil
import tempfile
from collections import Counter
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from pratique.apimachinery.source_documents import display_path
from pratique_cli.outputs import Missed, Reviewed, Tally
from pratique_cli.outputs.findings import findings
from pratique_cli.outputs.texts import subject
from pratique_frontdoor.chain.decisions import Decision

if TYPE_CHECKING:
    from typing import BinaryIO

_IN_MEMORY = 1 << 20
"""Bytes of one suite above which its cases wait in a temporary file: a suite's counts stand before its cases."""

# XML 1.0 (section 2.2) has no way to write these; delete and the C1 controls it can, and a terminal obeys them.
_UNFIT = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# A parser turns unescaped ones into other white space, in attributes or everywhere.
_SPACES = {"\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}

HEAD = b'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="pratique">\n'
"""The beginning of a report."""


@dataclasses.dataclass(slots=True)
class JUnitSuite:
    """The cases of one file."""

    file: str
    tests: int = 0
    failures: int = 0
    errors: int = 0
    seconds: float = 0.0
    names: Counter[str] = dataclasses.field(default_factory=Counter)
    """How often each name was there. It grows with the input, as the run's memory of admitted objects does."""
    cases: tempfile.SpooledTemporaryFile[bytes] = dataclasses.field(
        default_factory=lambda: tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - closed at the end
    )

    def add(self, name: str, seconds: float, parts: list[str], class_name: str = "") -> None:
        """Add a case. Readers tell cases apart by their names, from one run to the next: no line is in them.

        ``class_name`` is what it belongs to; empty for the file.
        """
        self.names[name] += 1
        self.tests += 1
        self.seconds += round(seconds, 6)  # as its case says, so that they add up
        if self.names[name] > 1:
            name += f" ({self.names[name]})"
        attributes = (
            f'name="{_attribute(name)}" classname="{_attribute(class_name or display_path(self.file))}"'
        )
        inner = "".join(f"\n      {part}" for part in parts)
        closing = "\n    " if parts else ""
        case = f'    <testcase {attributes} time="{seconds:.6f}">{inner}{closing}</testcase>\n'
        self.cases.write(case.encode())

    def end(self, stream: BinaryIO) -> None:
        """Write the suite."""
        counts = f'tests="{self.tests}" failures="{self.failures}" errors="{self.errors}" skipped="0"'
        name = _attribute(display_path(self.file))
        stream.write(f'  <testsuite name="{name}" {counts} time="{self.seconds:.6f}">\n'.encode())
        with self.cases as cases:
            cases.seek(0)
            shutil.copyfileobj(cases, stream)
        stream.write(b"  </testsuite>\n")
        stream.flush()


def problem(element: str, kind: str, message: str, body: str) -> str:
    """Write why a case did not pass; ``element`` is ``failure`` or ``error``."""
    attributes = f'type="{_attribute(kind)}" message="{_attribute(message)}"'
    return f"<{element} {attributes}>{text_of(body)}</{element}>"


def _attribute(text: str) -> str:
    return escape(_fit(text), _SPACES | {'"': "&quot;"})


def text_of(text: str) -> str:
    """Write the text of an element."""
    return escape(_fit(text), {"\r": "&#13;"})


def _fit(text: str) -> str:
    """Escape what XML cannot hold, as Python does in its literals."""
    return _UNFIT.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class JUnitOutput:
    """Writes each file's suite as soon as the next file begins."""

    def __init__(self, stream: BinaryIO, *, blame: bool = False) -> None:
        """Write UTF-8 to ``stream``; ``blame`` adds to denials which step last changed the field."""
        self._stream = stream
        self._blame = blame
        self._suite: JUnitSuite | None = None
        # Written late: where the run does not begin, because a flag names what is wrong, there is no report.
        self._head = HEAD

    def write(self, reviewed: Reviewed) -> None:
        """Add a case."""
        suite, decision = self._suite_of(reviewed.document.file), reviewed.decision
        refusals = [each.status for each in (decision, *decision.expanded) if each.status is not None]
        found = [
            (each, f"{display_path(suite.file)}:{each.place.line}: {each.rule}")
            for each in findings(reviewed, blame=self._blame)
        ]
        parts = []
        if refusals:
            suite.failures += 1
            body = "\n".join(f"{place}: {each.message}" for each, place in found if each.level == "error")
            reason = refusals[0].reason or str(refusals[0].code)
            parts.append(problem("failure", reason, refusals[0].message, body))
        warnings = "\n".join(
            f"{place}: warning: {each.text}" for each, place in found if each.level == "warning"
        )
        if warnings:
            parts.append(f"<system-out>{text_of(warnings)}</system-out>")
        suite.add(subject(reviewed.review), _seconds(decision), parts)

    def miss(self, missed: Missed) -> None:
        """Add a case that is an error: nobody knows what a cluster would decide."""
        suite = self._suite_of(missed.error.file)
        suite.errors += 1
        place = missed.error.place
        unnamed = "document" if place is None else f"document at line {place.line}"
        name = subject(missed.review) if missed.review else unnamed
        kind = "undecided" if missed.review else "unreadable"
        suite.add(name, 0.0, [problem("error", kind, str(missed.error), str(missed.error))])

    def _suite_of(self, file: str) -> JUnitSuite:
        if self._suite is None or self._suite.file != file:
            self._end_suite()
            self._suite = JUnitSuite(file)
        return self._suite

    def _end_suite(self) -> None:
        self._stream.write(self._head)
        self._head = b""
        if self._suite is not None:
            self._suite.end(self._stream)
            self._suite = None

    def finish(self, tally: Tally) -> None:  # noqa: ARG002 - the suites count for themselves
        """Write the last suite, and the end."""
        self._end_suite()
        self._stream.write(b"</testsuites>\n")
        self._stream.flush()


def _seconds(decision: Decision) -> float:
    return sum(decision.phase_seconds.values()) + sum(map(_seconds, decision.expanded))
