"""``-o json``, ``jsonl`` and ``yaml``: decision documents for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSONObject, encode
from pratique_cli.encoding import dump_yaml, without_commands
from pratique_cli.outputs import ReviewCounts, ReviewedDocument, UndecidedDocument
from pratique_cli.outputs.findings import encodable
from pratique_frontdoor.chain.decision_documents import encode_decision, to_document
from pratique_frontdoor.chain.decisions import Decision


def decision_document(reviewed: ReviewedDocument, *, blame: bool) -> JSONObject:
    """Make the document of a decision; ``blame`` adds the member of that name to it and to those of its Pods."""
    document = to_document(reviewed.decision) | {"source": _source(reviewed)}
    if blame:
        from pratique_frontdoor.blame.changes import blame_document, blame_of  # noqa: PLC0415 - only with --blame

        both = ((reviewed.review, reviewed.decision, document), *_expanded_documents(reviewed, document))
        for review, decision, written in both:
            written["blame"] = blame_document(blame_of(decision, review.object_document.data), decision)
    return document


def _expanded_documents(
    reviewed: ReviewedDocument, document: JSONObject
) -> Iterator[tuple[Review, Decision, JSONObject]]:
    for expansion, written in zip(reviewed.expanded, document["expanded"], strict=True):
        yield expansion.review, expansion.decision, written


def _json_document(reviewed: ReviewedDocument, *, blame: bool) -> bytes:
    """Make the document of a decision as compact JSON."""
    if blame:
        return without_commands(encode(decision_document(reviewed, blame=True)))
    # The decision is encoded as fast as possible; the member is added to its text.
    text = encode_decision(reviewed.decision)[:-1] + b',"source":' + encode(_source(reviewed)) + b"}"
    return without_commands(text)


def _source(reviewed: ReviewedDocument) -> JSONObject:
    """Make the member that tells where the document was read: its file as it was given, and its line."""
    document = reviewed.document
    return {"file": encodable(document.file), "line": document.line}


class JsonArrayOutput:
    """Writes one JSON array, element by element, so that memory does not grow with the input."""

    def __init__(self, stream: BinaryIO, *, blame: bool = False) -> None:
        """Write UTF-8 to ``stream``; ``blame`` adds which step changed what."""
        self._stream = stream
        self._blame = blame
        self._before = b"[\n"

    def write(self, reviewed: ReviewedDocument) -> None:
        """Write one element."""
        element = msgspec.json.format(_json_document(reviewed, blame=self._blame), indent=2)
        self._stream.write(self._before + element)
        self._stream.flush()
        self._before = b",\n"

    def write_problem(self, problem: UndecidedDocument) -> None:
        """Write nothing: standard error reports it."""

    def finish(self, counts: ReviewCounts) -> None:  # noqa: ARG002 - the counts are not part of the array
        """Close the array, which may be empty."""
        self._stream.write(b"[]\n" if self._before == b"[\n" else b"\n]\n")
        self._stream.flush()


class JsonLinesOutput:
    """Writes one decision document per line."""

    def __init__(self, stream: BinaryIO, *, blame: bool = False) -> None:
        """Write UTF-8 to ``stream``; ``blame`` adds which step changed what."""
        self._stream = stream
        self._blame = blame

    def write(self, reviewed: ReviewedDocument) -> None:
        """Write one line."""
        self._stream.write(_json_document(reviewed, blame=self._blame) + b"\n")
        self._stream.flush()

    def write_problem(self, problem: UndecidedDocument) -> None:
        """Write nothing: standard error reports it."""

    def finish(self, counts: ReviewCounts) -> None:
        """Write nothing: there is nothing to close."""


class YamlOutput:
    """Writes one YAML document for each decision."""

    def __init__(self, stream: BinaryIO, *, blame: bool = False) -> None:
        """Write UTF-8 to ``stream``; ``blame`` adds which step changed what."""
        self._stream = stream
        self._blame = blame

    def write(self, reviewed: ReviewedDocument) -> None:
        """Write one document."""
        self._stream.write(b"---\n" + dump_yaml(decision_document(reviewed, blame=self._blame)).encode())
        self._stream.flush()

    def write_problem(self, problem: UndecidedDocument) -> None:
        """Write nothing: standard error reports it."""

    def finish(self, counts: ReviewCounts) -> None:
        """Write nothing: there is nothing to close."""
