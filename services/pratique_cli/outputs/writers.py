"""The output for each format, and the catalogue of controllers in the formats of CI systems."""

from __future__ import annotations

import importlib.metadata
import io
import sys
from collections.abc import Sequence

import msgspec

from pratique.apimachinery.json_values import JSONObject, encode
from pratique_cli.outputs import Output
from pratique_cli.outputs.github import annotation
from pratique_cli.outputs.junit import HEAD, JUnitSuite, text_of
from pratique_cli.outputs.sarif import SCHEMA


def catalogue_junit(controllers: Sequence[JSONObject]) -> bytes:
    """Write a suite with a case for each controller, with its summary as output."""
    stream, suite = io.BytesIO(), JUnitSuite("plugins")
    for controller in controllers:
        suite.add(
            controller["name"], 0.0, [f"<system-out>{text_of(_controller_summary(controller))}</system-out>"]
        )
    stream.write(HEAD)
    suite.end(stream)
    stream.write(b"</testsuites>\n")
    return stream.getvalue()


def catalogue_sarif(controllers: Sequence[JSONObject]) -> bytes:
    """Write a log without results, with the controllers as rules."""
    driver = {
        "name": "pratique",
        "version": importlib.metadata.version("pratique"),
        "rules": [
            {
                "id": controller["name"],
                "name": controller["name"],
                "shortDescription": {"text": controller["summary"]},
                "defaultConfiguration": {"enabled": controller["default"], "level": "error"},
            }
            for controller in controllers
        ],
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"results": [], "tool": {"driver": driver}}]}
    return msgspec.json.format(encode(log), indent=2) + b"\n"


def catalogue_github(controllers: Sequence[JSONObject]) -> bytes:
    """Write a notice for each controller."""
    return b"".join(
        annotation("notice", "", None, controller["name"], _controller_summary(controller))
        for controller in controllers
    )


def _controller_summary(controller: JSONObject) -> str:
    state = "on" if controller["default"] else "off"
    return f"{', '.join(controller['phases'])}; {state} by default: {controller['summary']}"


def open_output(name: str, *, verbose: bool, colour: bool | None, blame: bool = False) -> Output:
    """Make the output for a format of ``pratique_cli.options.REVIEW_FORMATS``; it writes to standard output.

    ``blame`` adds which step changed what. Only the module of the format is imported.
    """
    match name:
        case "text":
            from pratique_cli.outputs.texts import TextOutput  # noqa: PLC0415
            from pratique_cli.terminal import palette_for  # noqa: PLC0415

            return TextOutput(
                sys.stdout, palette_for(sys.stdout, colour=colour), verbose=verbose, blame=blame
            )
        case "yaml":
            from pratique_cli.outputs.documents import YamlOutput  # noqa: PLC0415

            return YamlOutput(sys.stdout.buffer, blame=blame)
        case "json":
            from pratique_cli.outputs.documents import JsonArrayOutput  # noqa: PLC0415

            return JsonArrayOutput(sys.stdout.buffer, blame=blame)
        case "jsonl":
            from pratique_cli.outputs.documents import JsonLinesOutput  # noqa: PLC0415

            return JsonLinesOutput(sys.stdout.buffer, blame=blame)
        case _:
            return _open_report(name, blame=blame)


def _open_report(name: str, *, blame: bool) -> Output:
    match name:
        case "junit":
            from pratique_cli.outputs.junit import JUnitOutput  # noqa: PLC0415

            return JUnitOutput(sys.stdout.buffer, blame=blame)
        case "sarif":
            from pratique_cli.outputs.sarif import SarifOutput  # noqa: PLC0415

            return SarifOutput(sys.stdout.buffer, blame=blame)
        case _:
            from pratique_cli.outputs.github import GitHubOutput  # noqa: PLC0415

            return GitHubOutput(sys.stdout.buffer, blame=blame)
