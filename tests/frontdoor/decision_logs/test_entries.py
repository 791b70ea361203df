"""Entries: what a line contains, and what it must not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pratique.admission.controllers import Phase
from pratique.admission.results import OutcomeStatus
from pratique.apimachinery import statuses
from pratique.cluster.store import ANY_NAMESPACE
from pratique_frontdoor.chain.decisions import Decision, Step
from pratique_frontdoor.decision_logs.entries import MAX_TEXT_LENGTH, EntryWriter, Observation
from pratique_frontdoor.http.codecs import decode_review
from support.front_doors.reviews import review_body

SCOPE: dict[str, Any] = {"type": "http", "client": ("127.0.0.1", 1), "state": {}}
SECRET = {"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": "hunter2-7f3e"}}


def entry(message: str, limit: int = 1 << 20, key: bytes | None = None, **decided: Any) -> Any:
    """The members of the entry of a review of a Secret that is denied with a message."""
    seen = Observation("/admit", SCOPE)
    seen.received = decode_review(review_body(object=SECRET), ANY_NAMESPACE)
    seen.decision = Decision(uid="u", allowed=False, status=statuses.bad_request(message), **decided)
    seen.answered(200, b"")
    return EntryWriter(key, b"r" * 32, limit).members(seen, "sha256:0")


def test_a_message_that_quotes_a_secret_is_redacted() -> None:
    found = entry("the password hunter2-7f3e is too short")["message"]
    assert found.startswith("the password redacted:")
    assert found.endswith(" is too short")


def test_a_review_that_was_not_redacted_has_no_message() -> None:
    assert "message" not in entry("the password hunter2-7f3e is too short", limit=10)


@pytest.mark.parametrize("message", ["x" * 100_000, "\ud800", "\0\n\u2028"])
def test_a_message_is_truncated_and_can_be_encoded(message: str) -> None:
    found = entry(message)
    assert len(found["message"]) <= MAX_TEXT_LENGTH
    json.dumps(found).encode()


def test_a_failed_answer_is_not_logged_as_a_decision() -> None:
    seen = Observation("/admit", SCOPE)
    seen.received = decode_review(review_body(), ANY_NAMESPACE)
    seen.decision = Decision(uid="u", allowed=True)
    seen.answered(503, json.dumps({"reason": "ServiceUnavailable", "message": "going"}).encode())
    found = EntryWriter(None, b"r" * 32, 1 << 20).members(seen, "")
    assert (found["kind"], found["code"], found["reason"]) == ("outage", 503, "ServiceUnavailable")
    assert "allowed" not in found


def test_an_entry_names_who_refused_and_who_failed_open() -> None:
    def step(name: str, outcome: OutcomeStatus) -> Step:
        return Step(
            controller="ValidatingAdmissionWebhook",
            phase=Phase.VALIDATE,
            name=name,
            configuration="hooks",
            outcome=outcome,
        )

    steps = (
        step("denies", OutcomeStatus.DENIED),
        step("fails", OutcomeStatus.FAILED),
        step("opens", OutcomeStatus.FAILED_OPEN),
        step("allows", OutcomeStatus.ALLOWED),
    )
    found = entry("no", steps=steps)
    assert [(item["configuration"], item["name"]) for item in found["deniedBy"]] == [
        ("hooks", "denies"),
        ("hooks", "fails"),
    ]
    assert found["failedOpen"] == ["opens"]


def test_an_entry_without_its_objects_says_so_and_has_no_message() -> None:
    seen = Observation("/admit", SCOPE)
    seen.received = decode_review(review_body(object=SECRET), ANY_NAMESPACE)
    seen.decision = Decision(uid="u", allowed=False, status=statuses.bad_request("hunter2-7f3e"))
    seen.answered(200, b"")
    seen.drop_objects()
    found = EntryWriter(b"k" * 32, b"r" * 32, 1 << 20).members(seen, "")
    assert seen.size == 0
    assert (found["omitted"], found["allowed"], found["request"]["name"]) == (True, False, "one")
    assert not {"message", "patch", "objectDigest"} & found.keys()
