"""Which output writes which format."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pratique_cli.outputs import Output


def open_output(name: str, *, verbose: bool, colour: bool | None, blame: bool = False) -> Output:
    """Make the output for a format of ``pratique_cli.formats.REVIEW_FORMATS``; it writes to standard output.

    ``blame`` tells who changed what, too.
    Only what the format needs is imported: YAML alone takes a tenth of a second.
    """
    match name:
        case "text":
            from pratique_cli.outputs.texts import Texts  # noqa: PLC0415
            from pratique_cli.palettes import palette_for  # noqa: PLC0415

            return Texts(sys.stdout, palette_for(sys.stdout, colour=colour), verbose=verbose, blame=blame)
        case "yaml":
            from pratique_cli.outputs.yaml_streams import YamlStream  # noqa: PLC0415

            return YamlStream(sys.stdout.buffer, blame=blame)
        case "json":
            from pratique_cli.outputs.json_arrays import JsonArray  # noqa: PLC0415

            return JsonArray(sys.stdout.buffer, blame=blame)
        case "jsonl":
            from pratique_cli.outputs.json_lines import JsonLines  # noqa: PLC0415

            return JsonLines(sys.stdout.buffer, blame=blame)
        case _:
            return _open_report(name, blame=blame)


def _open_report(name: str, *, blame: bool) -> Output:
    match name:
        case "junit":
            from pratique_cli.outputs.junit import JUnit  # noqa: PLC0415

            return JUnit(sys.stdout.buffer, blame=blame)
        case "sarif":
            from pratique_cli.outputs.sarif import Sarif  # noqa: PLC0415

            return Sarif(sys.stdout.buffer, blame=blame)
        case _:
            from pratique_cli.outputs.github import GitHub  # noqa: PLC0415

            return GitHub(sys.stdout.buffer, blame=blame)
