"""Places in SARIF logs: which file, where in it, and what it is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique_cli.outputs.artifacts import relative_path, relative_uri

if TYPE_CHECKING:
    from pratique.json_values import JSONObject
    from pratique.positions import Position

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
"""What a log is held against."""
ROOT = "%SRCROOT%"
"""The base of relative addresses, by the name that code scanning knows."""


def locations(file: str, place: Position | None, about: str, field: str = "") -> JSONObject:
    """The member ``locations`` of a result or notification; none where there is nothing to tell."""
    location: JSONObject = {}
    path = relative_path(file)
    if path is not None:
        artifact = {"uri": relative_uri(path)} | ({} if path.startswith("/") else {"uriBaseId": ROOT})
        location["physicalLocation"] = {"artifactLocation": artifact}
        if place is not None:
            region = {"startLine": place.line, "startColumn": place.column}
            location["physicalLocation"]["region"] = region
    if about:
        name = f"{about} {field}" if field else about
        location["logicalLocations"] = [{"fullyQualifiedName": speakable(name), "kind": "resource"}]
    return {"locations": [location]} if location else {}


def speakable(text: str) -> str:
    """Escape the halves of surrogate pairs: a file's name may hold them, and UTF-8 cannot."""
    return text.encode("utf-8", "backslashreplace").decode()
