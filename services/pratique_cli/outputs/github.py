"""``-o github``: workflow commands, which GitHub Actions shows beside the lines of a pull request.

Syntax: https://docs.github.com/actions/reference/workflow-commands-for-github-actions, escaped as in
``packages/core/src/command.ts`` of https://github.com/actions/toolkit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.source_documents import Position, display_path
from pratique_cli.outputs import ReviewCounts, ReviewedDocument, UndecidedDocument, controller_summary
from pratique_cli.outputs.changes import subject
from pratique_cli.outputs.findings import findings, relative_path
from pratique_cli.terminal import printable

_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = _DATA | str.maketrans({":": "%3A", ",": "%2C"})
_BREAKS = frozenset("\r\n")


class GitHubOutput:
    """Writes one line for each cause of a denial, each warning and each document without a decision."""

    def __init__(self, stream: BinaryIO, *, blame: bool = False) -> None:
        """Write UTF-8 to ``stream``; ``blame`` adds to denials which step last changed the field."""
        self._stream = stream
        self._blame = blame

    def write(self, reviewed: ReviewedDocument) -> None:
        """Write the findings of one document."""
        for finding in findings(reviewed, blame=self._blame):
            title = f"{finding.origin}: {subject(reviewed.review)}"
            self._annotate(finding.level, reviewed.document.file, finding.place, title, finding.message)

    def write_problem(self, problem: UndecidedDocument) -> None:
        """Write an error."""
        title = f"undecided: {subject(problem.review)}" if problem.review else "unreadable"
        self._annotate("error", problem.error.file, problem.error.place, title, str(problem.error))

    def finish(self, counts: ReviewCounts) -> None:
        """Write nothing: there is nothing to close."""

    def _annotate(self, command: str, file: str, place: Position | None, title: str, text: str) -> None:
        self._stream.write(annotation(command, file, place, title, text))
        self._stream.flush()


def annotation(command: str, file: str, place: Position | None, title: str, text: str) -> bytes:
    """Write one workflow command: ``error``, ``warning`` or ``notice``."""
    properties = _place(file, place) | {"title": title}
    if "file" not in properties and place is not None:
        text = f"{display_path(file)}:{place.line}: {text}"
    written = ",".join(
        f"{name}={_escaped_controls(value).translate(_PROPERTY)}" for name, value in properties.items()
    )
    return f"::{command} {written}::{_escaped_controls(text).translate(_DATA)}\n".encode()


def _place(file: str, place: Position | None) -> dict[str, str]:
    """The location of an annotation; a line is only meaningful with a file."""
    path = relative_path(file)
    if path is None:
        return {}
    lines = {} if place is None else {"line": str(place.line), "col": str(place.column)}
    return {"file": path} | lines


def _escaped_controls(text: str) -> str:
    """Escape control characters except line breaks, which GitHub escapes in its own way."""
    if text.isprintable():
        return text
    return "".join(character if character in _BREAKS else printable(character) for character in text)


def catalogue_github(controllers: Sequence[JSONObject]) -> bytes:
    """Write a notice for each controller."""
    return b"".join(
        annotation("notice", "", None, controller["name"], controller_summary(controller))
        for controller in controllers
    )
