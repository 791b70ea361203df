"""JSON text as Go's ``encoding/json`` writes it: compact, and with five characters escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.json_values import encode

if TYPE_CHECKING:
    from pratique.json_values import JSON

_HTML = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
"""What Go escapes, so that the text can stand in a web page."""


def go_json(value: JSON) -> str:
    """Write a value; members stay in their own order."""
    return encode(value).decode().translate(_HTML)
