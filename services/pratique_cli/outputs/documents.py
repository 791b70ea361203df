"""``-o json``, ``jsonl`` and ``yaml``: decision documents for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSONObject, encode
from pratique_cli.outputs import Missed, Reviewed, Tally
from pratique_cli.terminal import dump_yaml
from pratique_frontdoor.chain.decisions import Decision, to_document

if TYPE_CHECKING:
    from typing import BinaryIO


def decision_document(reviewed: Reviewed, *, blame: bool) -> JSONObject:
    """Make the document of a decision, and with ``blame`` the member of that name in it and in each Pod's."""
    document = to_document(reviewed.decision)
    if blame:
        from pratique_frontdoor.blame.changes import blame_document, blame_of  # noqa: PLC0415 - only for those who want to know

        both = ((reviewed.review, reviewed.decision, document), *_expanded_documents(reviewed, document))
        for review, decision, told in both:
            told["blame"] = blame_document(blame_of(decision, review.object_document.data), decision)
    return document


def _expanded_documents(
    reviewed: Reviewed, document: JSONObject
) -> Iterator[tuple[Review, Decision, JSONObject]]:
    for expansion, told in zip(reviewed.expanded, document["expanded"], strict=True):
        yield expansion.review, expansion.decision, told


class JsonArrayOutput:
    """Writes one array, element by element, so that memory does not grow with the input."""

    def __init__(self, stream: BinaryIO, *, blame: bool = False) -> None:
        """Write UTF-8 to ``stream``; ``blame`` tells who changed what, too."""
        self._stream = stream
        self._blame = blame
        self._before = b"[\n"

    def write(self, reviewed: Reviewed) -> None:
        """Write one element."""
        element = msgspec.json.format(encode(decision_document(reviewed, blame=self._blame)), indent=2)
        self._stream.write(self._before + element)
        self._stream.flush()
        self._before = b",\n"

    def miss(self, missed: Missed) -> None:
        """Write nothing: standard error tells it."""

    def finish(self, tally: Tally) -> None:  # noqa: ARG002 - the elements say it all
        """Close the array; of no elements where there were none."""
        self._stream.write(b"[]\n" if self._before == b"[\n" else b"\n]\n")
        self._stream.flush()


class JsonLinesOutput:
    """Writes one decision document a line."""

    def __init__(self, stream: BinaryIO, *, blame: bool = False) -> None:
        """Write UTF-8 to ``stream``; ``blame`` tells who changed what, too."""
        self._stream = stream
        self._blame = blame

    def write(self, reviewed: Reviewed) -> None:
        """Write one line."""
        self._stream.write(encode(decision_document(reviewed, blame=self._blame)) + b"\n")
        self._stream.flush()

    def miss(self, missed: Missed) -> None:
        """Write nothing: standard error tells it."""

    def finish(self, tally: Tally) -> None:
        """Write nothing: the lines say it all."""


class YamlOutput:
    """Writes one YAML document for each decision."""

    def __init__(self, stream: BinaryIO, *, blame: bool = False) -> None:
        """Write UTF-8 to ``stream``; ``blame`` tells who changed what, too."""
        self._stream = stream
        self._blame = blame

    def write(self, reviewed: Reviewed) -> None:
        """Write one document."""
        self._stream.write(b"---\n" + dump_yaml(decision_document(reviewed, blame=self._blame)).encode())
        self._stream.flush()

    def miss(self, missed: Missed) -> None:
        """Write nothing: standard error tells it."""

    def finish(self, tally: Tally) -> None:
        """Write nothing: the documents say it all."""
