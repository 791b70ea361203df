"""``-o junit``: the XML report of JUnit, as Jenkins, GitLab and others read it.

Every input document is a test case, and each file a suite. Elements, their order and their attributes are those
of ``junit-10.xsd`` of Jenkins' xUnit plugin and of ``jenkins-junit.xsd`` of JUnit alike. They have no attributes
for file and line of a case: the texts of failures begin with both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.source_documents import shown
from pratique_cli.outputs.findings import findings
from pratique_cli.outputs.junit_suites import HEAD, ReportSuite, problem, text_of
from pratique_cli.outputs.subjects import subject

if TYPE_CHECKING:
    from typing import BinaryIO

    from frontdoor.decisions import Decision
    from pratique_cli.outputs import Missed, Reviewed, Tally


class JUnit:
    """Writes each file's suite as soon as the next file begins."""

    def __init__(self, stream: BinaryIO, *, blame: bool = False) -> None:
        """Write UTF-8 to ``stream``; ``blame`` tells of denials who last changed what they are about."""
        self._stream = stream
        self._blame = blame
        self._suite: ReportSuite | None = None
        # Written late: where the run does not begin, because a flag names what is wrong, there is no report.
        self._head = HEAD

    def write(self, reviewed: Reviewed) -> None:
        """Add a case."""
        suite, decision = self._suite_of(reviewed.document.file), reviewed.decision
        refusals = [each.status for each in (decision, *decision.expanded) if each.status is not None]
        found = [
            (each, f"{shown(suite.file)}:{each.place.line}: {each.rule}")
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

    def _suite_of(self, file: str) -> ReportSuite:
        if self._suite is None or self._suite.file != file:
            self._end_suite()
            self._suite = ReportSuite(file)
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
