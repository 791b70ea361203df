"""What the services log beside a message: a field that no one lists is dropped, and nobody would notice."""

from __future__ import annotations

import ast
from pathlib import Path

from pratique.telemetry.logs import FIELDS

SERVICES = Path(__file__).parents[2] / "services"


def logged(source: str) -> set[str]:
    """The names in the ``extra={…}`` of a file's calls, as far as they are written there."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    extras = (keyword.value for call in calls for keyword in call.keywords if keyword.arg == "extra")
    keys = (key for extra in extras if isinstance(extra, ast.Dict) for key in extra.keys)
    return {str(key.value) for key in keys if isinstance(key, ast.Constant)}


def test_every_field_that_is_logged_is_one_that_logs_have() -> None:
    found = {name for file in SERVICES.rglob("*.py") for name in logged(file.read_text("utf-8"))}
    assert {"ledger", "quota", "reason"} <= found
    assert found <= FIELDS.keys()
