"""Drawn requests with what a real kube-apiserver answered, kept so that tests need none."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from differential.pairs import Answer, Request, User, resource_of
from pratique.apimachinery.json_values import JSONObject

FILE = Path(__file__).parents[1] / "data" / "stored_objects" / "drawn.jsonl"


class RecordedObject(NamedTuple):
    """A request, what was stored if it changes something, and the answer."""

    request: Request
    old: JSONObject | None
    answer: Answer

    def __str__(self) -> str:
        """The request as a test shows it."""
        request, answer = self.request, self.answer
        words = [request.resource.kind, request.subresource, request.method, str(answer.code)]
        return " ".join(word for word in words if word)


def read(file: Path = FILE) -> list[RecordedObject]:
    """All of them; none if there is no file."""
    if not file.exists():
        return []
    # not splitlines(), which divides a row at the separators of Unicode, too
    return [_decode(json.loads(line)) for line in file.read_text().split("\n") if line]


def write(rows: Iterable[RecordedObject], file: Path = FILE) -> None:
    """Write them in place of those that are there, a line for each."""
    file.write_text("".join(f"{_line(row)}\n" for row in rows))


def size(row: RecordedObject) -> int:
    """How long its line is."""
    return len(_line(row))


def _line(row: RecordedObject) -> str:
    return json.dumps(_encode(row), separators=(",", ":"), ensure_ascii=False)


def _encode(row: RecordedObject) -> JSONObject:
    request, answer = row.request, row.answer
    resource = request.resource
    written = {
        "method": request.method,
        "type": [resource.api_version, resource.kind],
        "namespace": request.namespace,
        "name": request.name,
        "subresource": request.subresource,
        "body": request.body,
        "old": row.old,
        "code": answer.code,
        "reason": answer.reason,
        "message": answer.message,
        "warnings": list(answer.warnings),
        "object": answer.object,
    }
    return {name: value for name, value in written.items() if value not in ("", None, [])}


def _decode(written: JSONObject) -> RecordedObject:
    request = Request(
        User.ADMIN,
        written["method"],
        resource_of(*written["type"]),
        written.get("namespace", ""),
        written.get("name", ""),
        written.get("body"),
        written.get("subresource", ""),
    )
    answer = Answer(
        written["code"],
        written.get("reason", ""),
        written.get("message", ""),
        tuple(written.get("warnings", ())),
        written.get("object"),
    )
    return RecordedObject(request, written.get("old"), answer)
