"""``-o jsonl``: one decision document a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.json_values import encode
from pratique_cli.outputs.decision_documents import decision_document

if TYPE_CHECKING:
    from typing import BinaryIO

    from pratique_cli.outputs import Missed, Reviewed, Tally


class JsonLines:
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
