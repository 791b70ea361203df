"""Objects with what a real kube-apiserver made of them, and how near a decision comes to that."""

from __future__ import annotations

import copy
import functools
import json
import re
from pathlib import Path
from typing import Any

from pratique.apimachinery import statuses
from pratique.cluster.files import load_cluster
from pratique_frontdoor.chain.decisions import Decision
from support.manifest_decisions import decide_manifest

Row = dict[str, Any]
FOLDER = Path(__file__).parents[1] / "data" / "stored_objects"
_ONLY_STORAGE_KNOWS = {
    "uid",
    "creationTimestamp",
    "resourceVersion",
    "managedFields",
    "selfLink",
    "generation",
}
_ALLOCATED = {"clusterIP", "clusterIPs", "healthCheckNodePort"}


@functools.cache
def definitions() -> tuple[dict[str, Any], ...]:
    """The CustomResourceDefinitions that the API server had."""
    return tuple(document for _, document in load_cluster((FOLDER / "definitions.yaml",)).items())


def rows() -> list[Row]:
    """The objects, with what the API server answered."""
    return [json.loads(line) for line in (FOLDER / "objects.jsonl").read_text().splitlines()]


def decide_row(row: Row) -> Decision:
    """Decide about the object of a row."""
    return decide_manifest(row["object"], old=row.get("oldObject"), definitions=definitions())


def difference(row: Row, decision: Decision) -> str:
    """What of a decision is not what the API server answered; empty if nothing is."""
    expected = row["expected"]
    admitted = expected["code"] < 300
    if decision.allowed is not admitted:
        return "decision"
    if not admitted:
        assert decision.status is not None
        status = statuses.to_document(decision.status)
        if status.get("code") != expected["code"]:
            return "code"
        return "" if status.get("message") == expected["status"].get("message") else "message"
    ours = _comparable(decision.object_document.data, row["object"])
    return "" if ours == _comparable(expected["object"], row["object"]) else "object"


def _comparable(stored: dict[str, Any], sent: dict[str, Any]) -> Any:
    """An object without what only storage can know, and without what is empty."""
    kept = copy.deepcopy(stored)
    metadata = kept.get("metadata") or {}
    for name in _ONLY_STORAGE_KNOWS:
        metadata.pop(name, None)
    if metadata.get("generateName"):
        metadata.pop("name", None)
    kept.pop("status", None)
    if kept.get("kind") == "Service":
        _drop_allocated(kept["spec"], sent.get("spec") or {})
    text = re.sub(r'"((?:batch\.kubernetes\.io/)?controller-uid)": ?"[^"]*"', r'"\1":""', json.dumps(kept))
    return _without_empty(json.loads(text))


def _drop_allocated(spec: dict[str, Any], sent: dict[str, Any]) -> None:
    for name in _ALLOCATED:
        if not sent.get("clusterIP") or name == "healthCheckNodePort":
            spec.pop(name, None)
    for port in spec.get("ports") or ():
        port.pop("nodePort", None)


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: _without_empty(child) for name, child in value.items()}
        return {name: child for name, child in kept.items() if child not in (None, {}, [], "")}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value
