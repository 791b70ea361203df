"""How the mistakes in configuration files are told: one line each, which names file, document, field and line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.json_values import member
from pratique.statuses import aggregate, go_quoted
from pratique.strict_decoding import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pratique.field_errors import FieldError
    from pratique.source_documents import SourceDocument


class DocumentError(ValueError):
    """What is wrong with one document."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Hold all that is wrong with it."""
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def from_field_errors(errors: Sequence[FieldError]) -> DocumentError:
    """Make the error of a document whose fields are wrong."""
    return DocumentError([Problem(error.path, str(error)) for error in errors])


def describe(document: SourceDocument, problems: Sequence[Problem]) -> list[str]:
    """Tell what is wrong with a document.

    Where that is more than one thing, the first line is the API server's answer, which names all of them.
    """
    kind = member(document.data, "kind")
    name = member(document.data, "metadata", "name")
    subject = " ".join((str(kind), go_quoted(name))) if isinstance(name, str) else str(kind)
    where = f"{document.file}: document {document.index + 1}" + (f": {subject}" if kind else "")
    lines = [f"{where}: {problem} ({_line(document, problem)})" for problem in problems]
    if len(problems) > 1:
        lines.insert(0, f"{where} is invalid: {aggregate(str(problem) for problem in problems)}")
    return lines


def _line(document: SourceDocument, problem: Problem) -> str:
    return f"line {document.position(problem.path.steps).line}"
