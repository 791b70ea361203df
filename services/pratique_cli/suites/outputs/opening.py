"""Opening outputs: which one writes which format."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pratique.json_values import encode

if TYPE_CHECKING:
    from pratique.json_values import JSONObject
    from pratique_cli.suites.runs import SuiteOutput


def open_suite_output(name: str, *, verbose: bool, colour: bool | None) -> SuiteOutput:
    """Make the output for a format of ``pratique_cli.formats.REVIEW_FORMATS``; it writes to standard output.

    Only what the format needs is imported.
    """
    match name:
        case "text":
            from pratique_cli.palettes import palette_for  # noqa: PLC0415
            from pratique_cli.suites.outputs.texts import Texts  # noqa: PLC0415

            return Texts(sys.stdout, palette_for(sys.stdout, colour=colour), verbose=verbose)
        case "json":
            from pratique_cli.suites.outputs.documents import JsonReport  # noqa: PLC0415

            return JsonReport(sys.stdout.buffer)
        case "jsonl" | "yaml":
            from pratique_cli.suites.outputs.documents import Documents  # noqa: PLC0415

            return Documents(sys.stdout.buffer, _json_line if name == "jsonl" else _yaml_document)
        case _:
            return _open_report(name)


def _open_report(name: str) -> SuiteOutput:
    match name:
        case "junit":
            from pratique_cli.suites.outputs.junit import JUnit  # noqa: PLC0415

            return JUnit(sys.stdout.buffer)
        case "sarif":
            from pratique_cli.suites.outputs.sarif import Sarif  # noqa: PLC0415

            return Sarif(sys.stdout.buffer)
        case _:
            from pratique_cli.suites.outputs.github import GitHub  # noqa: PLC0415

            return GitHub(sys.stdout.buffer)


def _json_line(document: JSONObject) -> bytes:
    return encode(document) + b"\n"


def _yaml_document(document: JSONObject) -> bytes:
    from pratique_cli.yaml_texts import dump_yaml  # noqa: PLC0415

    return b"---\n" + dump_yaml(document).encode()
