"""Custom resources as a kube-apiserver of 1.37.2 answered them, with a definition that uses nearly all of a schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pratique.apimachinery import statuses
from pratique.apimachinery.json_values import Document, JSONObject
from pratique.registry.custom_resources.registry import CustomResourceRegistry
from pratique.registry.strict_decoding import StrictDecodingError

_FOLDER = Path(__file__).parents[2] / "data" / "custom_resources"
_REGISTRY = CustomResourceRegistry(json.loads((_FOLDER / "thing.json").read_text()), "v1")
_CASES = [json.loads(line) for line in (_FOLDER / "things.jsonl").read_text().splitlines()]
_CANNOT_BE_HANDLED = 'Thing in version "v1" cannot be handled as a Thing: '


def _stored(written: JSONObject, old: JSONObject | None) -> JSONObject:
    """The object as the strategy prepares it: the status is the stored one's."""
    prepared = {name: value for name, value in written.items() if name != "status"}
    if old is None:
        return prepared
    kept = {name: old["metadata"][name] for name in ("uid", "creationTimestamp", "generation")}
    prepared["metadata"] = kept | prepared["metadata"]
    return prepared | ({"status": old["status"]} if "status" in old else {})


def _answer(written: JSONObject, old: JSONObject | None) -> tuple[str | None, JSONObject, list[str]]:
    """The message of a refusal, what would be stored, and the warnings."""
    try:
        decoded = _REGISTRY.decode(Document.from_raw(json.dumps(written).encode()))
    except StrictDecodingError as error:
        return f"{_CANNOT_BE_HANDLED}{error}", {}, []
    stored = _stored(_REGISTRY.with_defaults(decoded), old)
    findings = _REGISTRY.judge(stored, None if old is None else _REGISTRY.with_defaults(old))
    name = (stored.get("metadata") or {}).get("name") or ""
    status = statuses.invalid("lab.example.com", "Thing", name, findings.errors)
    return status.message if findings.errors else None, stored, list(findings.warnings)


@pytest.mark.parametrize("case", _CASES, ids=lambda case: f"{case['code']} {case.get('message', '')[-50:]}")
def test_objects_are_answered_as_an_api_server_does(case: JSONObject) -> None:
    """Refused with the same message, or stored with the same spec and warnings."""
    message, stored, warnings = _answer(case["object"], case.get("old"))
    assert message == case.get("message")
    if message is None:
        assert stored["spec"] == case["spec"]
        assert warnings == case.get("warnings", [])
