"""``-o jsonl``: one decision document a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frontdoor.decisions import to_document
from pratique.json_values import encode

if TYPE_CHECKING:
    from typing import BinaryIO

    from pratique_cli.outputs import Missed, Reviewed, Tally


class JsonLines:
    """Writes one decision document a line."""

    def __init__(self, stream: BinaryIO) -> None:
        """Write UTF-8 to ``stream``."""
        self._stream = stream

    def write(self, reviewed: Reviewed) -> None:
        """Write one line."""
        self._stream.write(encode(to_document(reviewed.decision)) + b"\n")
        self._stream.flush()

    def miss(self, missed: Missed) -> None:
        """Write nothing: standard error tells it."""

    def finish(self, tally: Tally) -> None:
        """Write nothing: the lines say it all."""
