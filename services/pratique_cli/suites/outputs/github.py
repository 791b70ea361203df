"""``-o github``: workflow commands, which GitHub Actions shows beside the lines of the suite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique_cli.outputs.changes import path_text
from pratique_cli.outputs.github import annotation

if TYPE_CHECKING:
    from typing import BinaryIO

    from pratique.errors import InputError
    from pratique_cli.suites.coverages import Coverage
    from pratique_cli.suites.results import Result, Score


class GitHub:
    """Writes a line for everything that is not as expected, and for what was never put to use."""

    def __init__(self, stream: BinaryIO) -> None:
        """Write UTF-8 to ``stream``."""
        self._stream = stream

    def write(self, result: Result) -> None:
        """Write what is not as expected; nothing for what is."""
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

    def finish(self, score: Score, coverage: Coverage | None) -> None:  # noqa: ARG002 - the annotations say it all
        """Write a notice for everything that was never put to use."""
        for entry in coverage.entries if coverage is not None else ():
            if entry.source is not None and not entry.acted:
                told = "no case has it do anything" if entry.matched else "no case has to do with it"
                place = entry.source.position(entry.path)
                title = f"not covered: {entry.kind} {entry.name}"
                self._put(annotation("notice", entry.source.file, place, title, told))

    def _put(self, line: bytes) -> None:
        self._stream.write(line)
        self._stream.flush()
