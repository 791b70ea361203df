"""Suite documents: test cases for ``pratique test``, which stand beside what they test and are no part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.json_values import member

if TYPE_CHECKING:
    from pratique.json_values import JSON

GROUP = "test.pratique"
"""The API group of suites, which no API server knows."""


def is_suite(data: JSON) -> bool:
    """True for a document of that group, whatever its version and kind."""
    version = member(data, "apiVersion")
    return isinstance(version, str) and version.startswith(f"{GROUP}/")
