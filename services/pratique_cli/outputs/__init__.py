"""The output formats of ``pratique review``, one module for each group of formats, and what they write."""

from __future__ import annotations

import dataclasses
import sys
from typing import Protocol

from pratique.admission.reviews import Review
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.source_documents import SourceDocument, display_path
from pratique_cli.reviews.expansions import Expansion
from pratique_frontdoor.chain.decisions import Decision


@dataclasses.dataclass(frozen=True, slots=True)
class ReviewedDocument:
    """An input document with its review and its decision."""

    document: SourceDocument
    """The input document."""
    review: Review
    """What was asked."""
    decision: Decision
    """What was decided."""
    expanded: tuple[Expansion, ...] = ()
    """The reviewed Pods of a workload, in the order of ``decision.expanded``."""

    @property
    def place(self) -> str:
        """The location of the document, for people: file and line."""
        return f"{display_path(self.document.file)}:{self.document.line}"


@dataclasses.dataclass(frozen=True, slots=True)
class UndecidedDocument:
    """An input document without a decision: unreadable, or not decided in time."""

    error: InputError
    """The reason, with its location."""
    review: Review | None = None
    """The review that was not decided in time; None if the document is unreadable."""


@dataclasses.dataclass(slots=True)
class ReviewCounts:
    """The counts of a review run."""

    admitted: int = 0
    denied: int = 0
    unreadable: int = 0
    """Documents that are neither a review nor a manifest."""
    undecided: int = 0
    """Documents that were not decided in time."""
    warned: int = 0
    """Decided documents with warnings."""
    pods_denied: int = 0
    """Denied Pods of workloads."""

    def count(self, *, allowed: bool) -> None:
        """Count one decision."""
        if allowed:
            self.admitted += 1
        else:
            self.denied += 1


class ReviewOutput(Protocol):
    """Writes decisions one by one, as soon as they are made."""

    def write(self, reviewed: ReviewedDocument) -> None:
        """Write one decision, and flush it."""

    def write_problem(self, problem: UndecidedDocument) -> None:
        """Write that a document has no decision, if the format has a place for that; standard error reports it, too."""

    def finish(self, counts: ReviewCounts) -> None:
        """Write the end of the output."""


def controller_summary(controller: JSONObject) -> str:
    """Describe a controller of the catalogue in one line."""
    state = "on" if controller["default"] else "off"
    return f"{', '.join(controller['phases'])}; {state} by default: {controller['summary']}"


def open_output(name: str, *, verbose: bool, colour: bool | None, blame: bool = False) -> ReviewOutput:
    """Make the output for a format of ``pratique_cli.options.REVIEW_FORMATS``; it writes to standard output.

    ``blame`` adds which step changed what. Only the module of the format is imported.
    """
    match name:
        case "text":
            from pratique_cli.outputs.texts import TextOutput  # noqa: PLC0415
            from pratique_cli.terminal import palette_for  # noqa: PLC0415

            return TextOutput(
                sys.stdout, palette_for(sys.stdout, colour=colour), verbose=verbose, blame=blame
            )
        case "yaml":
            from pratique_cli.outputs.documents import YamlOutput  # noqa: PLC0415

            return YamlOutput(sys.stdout.buffer, blame=blame)
        case "json":
            from pratique_cli.outputs.documents import JsonArrayOutput  # noqa: PLC0415

            return JsonArrayOutput(sys.stdout.buffer, blame=blame)
        case "jsonl":
            from pratique_cli.outputs.documents import JsonLinesOutput  # noqa: PLC0415

            return JsonLinesOutput(sys.stdout.buffer, blame=blame)
        case _:
            return _open_report(name, blame=blame)


def _open_report(name: str, *, blame: bool) -> ReviewOutput:
    match name:
        case "junit":
            from pratique_cli.outputs.junit import JUnitOutput  # noqa: PLC0415

            return JUnitOutput(sys.stdout.buffer, blame=blame)
        case "sarif":
            from pratique_cli.outputs.sarif import SarifOutput  # noqa: PLC0415

            return SarifOutput(sys.stdout.buffer, blame=blame)
        case _:
            from pratique_cli.outputs.github import GitHubOutput  # noqa: PLC0415

            return GitHubOutput(sys.stdout.buffer, blame=blame)
