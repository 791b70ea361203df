"""``-o junit``: every case is a test case, and each file a suite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.source_documents import shown
from pratique_cli.outputs.changes import path_text
from pratique_cli.outputs.junit_suites import HEAD, ReportSuite, problem
from pratique_cli.suites.results import Ending

if TYPE_CHECKING:
    from typing import BinaryIO

    from pratique.errors import InputError
    from pratique_cli.suites.coverages import Coverage
    from pratique_cli.suites.results import Result, Score


class JUnit:
    """Writes the report at the end: what cannot be read of a file comes before its cases."""

    def __init__(self, stream: BinaryIO) -> None:
        """Write UTF-8 to ``stream``."""
        self._stream = stream
        self._suites: dict[str, ReportSuite] = {}

    def write(self, result: Result) -> None:
        """Add a case."""
        case = result.case
        suite = self._suite(case.document.file)
        parts = []
        if result.mismatches:
            suite.failures += 1
            body = "\n".join(_lines(result))
            parts.append(problem("failure", "mismatch", result.mismatches[0].text, body))
        if result.ending in {Ending.UNREADABLE, Ending.UNDECIDED}:
            suite.errors += 1
            parts.append(problem("error", result.ending.value, str(result.error), str(result.error)))
        suite.add(case.name, result.seconds, parts, case.suite)

    def miss(self, error: InputError) -> None:
        """Add a case that is an error."""
        suite = self._suite(error.file)
        suite.errors += 1
        name = "suite" if error.place is None else f"suite at line {error.place.line}"
        suite.add(name, 0.0, [problem("error", Ending.UNREADABLE.value, str(error), str(error))])

    def finish(self, score: Score, coverage: Coverage | None) -> None:  # noqa: ARG002 - the suites count for themselves
        """Write all suites."""
        self._stream.write(HEAD)
        for suite in self._suites.values():
            suite.end(self._stream)
        self._stream.write(b"</testsuites>\n")
        self._stream.flush()

    def _suite(self, file: str) -> ReportSuite:
        return self._suites.setdefault(file, ReportSuite(file))


def _lines(result: Result) -> list[str]:
    lines = []
    for mismatch in result.mismatches:
        place = f"{shown(result.case.document.file)}:{result.position(mismatch).line}"
        lines.append(f"{place}: {path_text(mismatch.path[len(result.case.path) :])}: {mismatch.text}")
        lines += mismatch.difference
    return lines
