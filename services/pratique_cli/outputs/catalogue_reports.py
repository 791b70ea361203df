"""The catalogue of controllers in the formats of CI systems, whose reports can hold it beside those of reviews.

There is nothing wrong in it: no case fails, there are no results, and annotations are notices.
"""

from __future__ import annotations

import importlib.metadata
import io
from typing import TYPE_CHECKING

import msgspec

from pratique.json_values import encode
from pratique_cli.outputs.github import annotation
from pratique_cli.outputs.junit_suites import HEAD, ReportSuite, text_of
from pratique_cli.outputs.sarif_places import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pratique.json_values import JSONObject


def catalogue_junit(controllers: Sequence[JSONObject]) -> bytes:
    """Write a suite with a case for each controller, which has what it does as its output."""
    stream, suite = io.BytesIO(), ReportSuite("plugins")
    for each in controllers:
        suite.add(each["name"], 0.0, [f"<system-out>{text_of(_told(each))}</system-out>"])
    stream.write(HEAD)
    suite.end(stream)
    stream.write(b"</testsuites>\n")
    return stream.getvalue()


def catalogue_sarif(controllers: Sequence[JSONObject]) -> bytes:
    """Write a log without results, whose rules are the controllers."""
    driver = {
        "name": "pratique",
        "version": importlib.metadata.version("pratique"),
        "rules": [
            {
                "id": each["name"],
                "name": each["name"],
                "shortDescription": {"text": each["summary"]},
                "defaultConfiguration": {"enabled": each["default"], "level": "error"},
            }
            for each in controllers
        ],
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"results": [], "tool": {"driver": driver}}]}
    return msgspec.json.format(encode(log), indent=2) + b"\n"


def catalogue_github(controllers: Sequence[JSONObject]) -> bytes:
    """Write a notice for each controller."""
    return b"".join(annotation("notice", "", None, each["name"], _told(each)) for each in controllers)


def _told(controller: JSONObject) -> str:
    state = "on" if controller["default"] else "off"
    return f"{', '.join(controller['phases'])}; {state} by default: {controller['summary']}"
