"""Outputs of a replay: the report as JSON or YAML, or a line for each review that is decided otherwise."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

import msgspec

from pratique.json_values import encode
from pratique_cli.outputs.subjects import subject
from pratique_cli.replays.reports import Report, difference_document, rule_document

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

    from pratique_cli.replays.comparisons import Difference
    from pratique_cli.replays.recorded import Recorded


class ReplayOutput(Protocol):
    """Writes what a replay finds."""

    def write(self, recorded: Recorded, differences: Sequence[Difference]) -> None:
        """Write of one review what differs, where the format tells of single ones."""

    def finish(self, report: Report) -> None:
        """Write what there is to say of all."""


class DifferenceLines:
    """``-o jsonl``: a line for each review that is decided otherwise, as soon as that is known."""

    def __init__(self, stream: BinaryIO) -> None:
        """Write UTF-8 to ``stream``."""
        self._stream = stream

    def write(self, recorded: Recorded, differences: Sequence[Difference]) -> None:
        """Write one line."""
        line = {
            "file": recorded.document.file,
            "line": recorded.document.line,
            "uid": recorded.review.uid,
            "subject": subject(recorded.review),
            "configuration": recorded.configuration,
            "differences": [
                {"kind": one.kind.value, **rule_document(one.rule), **difference_document(one)}
                for one in differences
            ],
        }
        self._stream.write(encode(line) + b"\n")
        self._stream.flush()

    def finish(self, report: Report) -> None:
        """Write nothing: the lines say it all."""


class WholeReport:
    """``-o json``, ``-o yaml``: the report, at the end."""

    def __init__(self, stream: BinaryIO, *, yaml: bool) -> None:
        """Write UTF-8 to ``stream``."""
        self._stream = stream
        self._yaml = yaml

    def write(self, recorded: Recorded, differences: Sequence[Difference]) -> None:
        """Write nothing yet."""

    def finish(self, report: Report) -> None:
        """Write the report."""
        if self._yaml:
            from pratique_cli.yaml_texts import dump_yaml  # noqa: PLC0415 - it takes a tenth of a second

            self._stream.write(dump_yaml(report.to_document()).encode())
        else:
            self._stream.write(msgspec.json.format(encode(report.to_document()), indent=2) + b"\n")
        self._stream.flush()


def open_replay_output(name: str) -> ReplayOutput:
    """Make the output for one of ``pratique_cli.formats.FORMATS``; it writes to standard output."""
    if name == "text":
        from pratique_cli.palettes import palette_for  # noqa: PLC0415 - for people alone
        from pratique_cli.replays.texts import ReplayTexts  # noqa: PLC0415 - likewise

        return ReplayTexts(sys.stdout, palette_for(sys.stdout, colour=None))
    if name == "jsonl":
        return DifferenceLines(sys.stdout.buffer)
    return WholeReport(sys.stdout.buffer, yaml=name == "yaml")
