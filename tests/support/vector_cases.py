"""The cases of ``tests/vectors``, by what they test."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from pratique.apimachinery.json_values import JSONObject

_FOLDER = Path(__file__).parents[1] / "vectors"


@functools.cache
def _cases(file: str) -> tuple[JSONObject, ...]:
    return tuple(json.loads(line) for line in (_FOLDER / file).read_text("utf-8").splitlines())


def webhooks() -> tuple[JSONObject, ...]:
    """All cases of ``webhooks.jsonl``."""
    return _cases("webhooks.jsonl")


def kind(name: str) -> list[JSONObject]:
    """The cases of one kind in ``webhooks.jsonl``."""
    return [case for case in _cases("webhooks.jsonl") if case["kind"] == name]


def plugin(name: str) -> list[JSONObject]:
    """The cases of one admission controller in ``controllers.jsonl``."""
    return [case for case in _cases("controllers.jsonl") if case["plugin"] == name]


def source(case: JSONObject) -> str:
    """What a case is called in a test report: the file that it comes from, and its name there."""
    return str(case.get("id") or case["source"])
