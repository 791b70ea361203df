"""One document, and short ways to patch it."""

from __future__ import annotations

import pytest

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.patches import PatchError, apply_patch

DOCUMENT = {"m": {"a": "1", "n": None}, "l": ["x", "y"], "deep": {"l": [{"k": 1}]}, "": 0, "a/b": {"~": 1}}


def operation(kind: str, path: str, *value: JSON, source: str | None = None) -> JSONObject:
    written: JSONObject = {"op": kind, "path": path}
    if source is not None:
        written["from"] = source
    return {**written, "value": value[0]} if value else written


def applied(*operations: JSONObject, document: JSON = DOCUMENT) -> JSON:
    return apply_patch(document, operations)


def refused(*operations: JSONObject, document: JSON = DOCUMENT) -> str:
    with pytest.raises(PatchError) as refusal:
        apply_patch(document, operations)
    return str(refusal.value)
