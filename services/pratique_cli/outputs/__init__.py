"""The output formats of ``pratique review``, one module for each group of formats, and what they write."""

from __future__ import annotations

import enum
import io
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, BinaryIO, Protocol, TextIO

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.source_documents import SourceDocument, display_path
from pratique_cli.reviews.expansions import Expansion
from pratique_frontdoor.chain.decisions import Decision

if TYPE_CHECKING:
    from pratique_cli.options import OutputTarget


class ReviewedDocument(msgspec.Struct, frozen=True):
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


class UndecidedDocument(msgspec.Struct, frozen=True):
    """An input document without a decision: unreadable, or not decided in time."""

    error: InputError
    """The reason, with its location."""
    review: Review | None = None
    """The review that was not decided in time; None if the document is unreadable."""


class ReviewCounts(msgspec.Struct):
    """The counts of a review run."""

    admitted: int = 0
    denied: int = 0
    unreadable: int = 0
    """Documents that are neither a review nor a manifest."""
    undecided: int = 0
    """Documents that were not decided in time."""
    warned: int = 0
    """Decided documents with warnings."""
    pods: int = 0
    """Reviewed Pods of workloads."""
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


class Selection(enum.StrEnum):
    """Which decisions are written; documents without a decision always are."""

    ALL = "all"
    WARNED = "warned"
    DENIED = "denied"

    def includes(self, decision: Decision) -> bool:
        """Tell whether a decision, or one on a Pod that it would make, is selected."""
        return self is Selection.ALL or self._is_met(decision) or any(map(self._is_met, decision.expanded))

    def _is_met(self, decision: Decision) -> bool:
        return bool(decision.warnings) if self is Selection.WARNED else not decision.allowed


class SelectedOutput(msgspec.Struct, frozen=True):
    """Passes the selected decisions to other outputs."""

    outputs: Sequence[ReviewOutput]
    selection: Selection = Selection.ALL
    before_write: Callable[[], None] = lambda: None
    """Called before each decision that is written, such as to remove what else is on the screen."""

    def write(self, reviewed: ReviewedDocument) -> None:
        """Write the decision to each output if it is selected."""
        if self.selection.includes(reviewed.decision):
            self.before_write()
            for output in self.outputs:
                output.write(reviewed)

    def write_problem(self, problem: UndecidedDocument) -> None:
        """Write the problem to each output."""
        for output in self.outputs:
            output.write_problem(problem)

    def finish(self, counts: ReviewCounts) -> None:
        """Write the end of each output."""
        for output in self.outputs:
            output.finish(counts)


_TEXT_FORMATS = frozenset({"text", "table"})
_DETAILED = 1
"""The verbosity that shows steps and changes."""


class OutputStyle(msgspec.Struct, frozen=True):
    """How outputs for people look; other formats take ``blame`` alone."""

    verbosity: int = 0
    """0 is compact; 1 adds steps and changes; 2 adds skipped steps, times and endpoints."""
    colour: bool | None = None
    """None means: on a terminal."""
    blame: bool = False
    """Whether to add which step changed what."""
    quiet: bool = False
    """Whether to leave out what is admitted without a warning, and the summary."""


def open_output(target: OutputTarget, style: OutputStyle) -> ReviewOutput:
    """Make the output for a format of ``pratique_cli.options.DECISION_FORMATS``.

    Only the module of the format is imported.

    Raises:
        InputError: the file cannot be written.
    """
    if target.file is None:
        return _open_format(target.format, sys.stdout.buffer, sys.stdout, style)
    try:
        stream = target.file.open("wb")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"{target.file}: cannot be written: {reason}", file=str(target.file)) from None
    # A text stream closes what it wraps when it is collected: formats of bytes get none.
    is_text = target.format in _TEXT_FORMATS
    text = io.TextIOWrapper(stream, "utf-8", "backslashreplace", newline="") if is_text else sys.stdout
    return _open_format(target.format, stream, text, style)


def _open_format(name: str, binary: BinaryIO, stream: TextIO, style: OutputStyle) -> ReviewOutput:
    blame = style.blame
    match name:
        case "yaml" | "json" | "jsonl":
            return _open_documents(name, binary, blame=blame)
        case "text" | "table":
            return _WithoutSecrets(_open_text(name, stream, style))
        case _:
            return _WithoutSecrets(_open_report(name, binary, blame=blame))


class _WithoutSecrets(msgspec.Struct, frozen=True):
    """Passes decisions to an output for people, or one that others read, without the values of Secrets.

    Documents hold the object and its patch, with all values: whoever reads them decides by them.
    """

    output: ReviewOutput

    def write(self, reviewed: ReviewedDocument) -> None:
        from pratique_cli.outputs.changes import without_secrets  # noqa: PLC0415 - what a run writes, it imports

        self.output.write(without_secrets(reviewed))

    def write_problem(self, problem: UndecidedDocument) -> None:
        self.output.write_problem(problem)

    def finish(self, counts: ReviewCounts) -> None:
        self.output.finish(counts)


def _open_text(name: str, stream: TextIO, style: OutputStyle) -> ReviewOutput:
    from pratique_cli.terminal import palette_for  # noqa: PLC0415

    palette = palette_for(stream, colour=style.colour)
    match name:
        case "text":
            from pratique_cli.outputs.texts import TextOutput  # noqa: PLC0415

            return TextOutput(
                stream,
                palette,
                compact=style.verbosity < _DETAILED,
                verbose=style.verbosity > _DETAILED,
                blame=style.blame,
                quiet=style.quiet,
            )
        case _:
            from pratique_cli.outputs.tables import TableOutput  # noqa: PLC0415

            return TableOutput(stream, palette, quiet=style.quiet)


def _open_documents(name: str, stream: BinaryIO, *, blame: bool) -> ReviewOutput:
    from pratique_cli.outputs import documents  # noqa: PLC0415

    match name:
        case "yaml":
            return documents.YamlOutput(stream, blame=blame)
        case "json":
            return documents.JsonArrayOutput(stream, blame=blame)
        case _:
            return documents.JsonLinesOutput(stream, blame=blame)


def _open_report(name: str, stream: BinaryIO, *, blame: bool) -> ReviewOutput:
    match name:
        case "junit":
            from pratique_cli.outputs.junit import JUnitOutput  # noqa: PLC0415

            return JUnitOutput(stream, blame=blame)
        case "sarif":
            from pratique_cli.outputs.sarif import SarifOutput  # noqa: PLC0415

            return SarifOutput(stream, blame=blame)
        case "policyreport" | "openreports":
            from pratique_cli.outputs.policy_reports import (  # noqa: PLC0415
                OPEN_REPORTS,
                POLICY_REPORTS,
                PolicyReportOutput,
            )

            kinds = POLICY_REPORTS if name == "policyreport" else OPEN_REPORTS
            return PolicyReportOutput(stream, kinds, blame=blame)
        case _:
            from pratique_cli.outputs.github import GitHubOutput  # noqa: PLC0415

            return GitHubOutput(stream, blame=blame)
