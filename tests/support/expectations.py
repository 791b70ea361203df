"""Whether an admission is what a case of ``controllers.jsonl`` expects."""

from __future__ import annotations

from pratique.apimachinery.json_values import JSON, JSONObject, member, unescape
from support.admissions import Admission


def check(found: Admission, expected: JSONObject) -> None:
    """Assert everything that a case expects."""
    assert found.allowed is expected["allowed"], found.status
    if found.status is None:
        for place, value in expected.get("object", {}).items():
            # An empty object is one that Go leaves out.
            assert at(found.object, place) in ([value] if value != {} else [None, value])
        for place in expected.get("absent", ()):
            assert not at(found.object, place)
        return
    assert found.status.code == expected["code"]
    assert found.status.reason == expected.get("reason", "")
    for text in (expected.get("messageContains", ""), *expected.get("messageContainsAll", ())):
        assert text in found.status.message
    if "causes" in expected:
        assert found.status.details is not None
        causes = [
            {"reason": cause.reason, "message": cause.message, "field": cause.field}
            for cause in found.status.details.causes
        ]
        assert causes == expected["causes"]


def at(document: JSON, place: str) -> JSON:
    """Read what a JSON Pointer leads to; None where it leads nowhere."""
    steps = [unescape(step) for step in place.split("/")[1:]]
    return member(document, *(int(step) if step.isdigit() else step for step in steps))
