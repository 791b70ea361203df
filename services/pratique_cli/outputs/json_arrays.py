"""``-o json``: one array of decision documents, for people and programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pratique.json_values import encode
from pratique_cli.outputs.decision_documents import decision_document

if TYPE_CHECKING:
    from typing import BinaryIO

    from pratique_cli.outputs import Missed, Reviewed, Tally


class JsonArray:
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
