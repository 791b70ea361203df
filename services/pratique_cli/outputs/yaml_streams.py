"""``-o yaml``: a stream of decision documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique_cli.outputs.decision_documents import decision_document
from pratique_cli.yaml_texts import dump_yaml

if TYPE_CHECKING:
    from typing import BinaryIO

    from pratique_cli.outputs import Missed, Reviewed, Tally


class YamlStream:
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
