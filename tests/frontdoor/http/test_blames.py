from __future__ import annotations

import json

import pytest

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import Document
from pratique_frontdoor.chain.decisions import Decision
from support.blame_cases import decided
from support.front_doors.engines import AllowingEngine
from support.front_doors.running import Door, open_door
from support.watched_documents import EndlessDocument, WatchedDocument


class LabellingEngine(AllowingEngine):
    """Adds a label in a step."""

    async def conclude(self, review: Review) -> Decision:
        return decided(review.object, [{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}])


def test_an_explanation_has_the_blame_on_request() -> None:
    with open_door(LabellingEngine()) as door:
        document = door.post("/explain?blame=true&phase=mutate").json
        without = door.post("/explain?blame=false").json
    (change,) = document.pop("blame")["changes"]
    assert change == {
        "op": "add",
        "path": "/metadata/labels",
        "before": None,
        "after": {"seen": "yes"},
        "step": 0,
        "controller": "Mutator",
        "name": "Mutator",
        "configuration": "",
        "round": 0,
        "earlier": [],
    }
    assert document == without


class ExplainingEngine(AllowingEngine):
    """Decides on a document that is read for the explanation alone."""

    def __init__(self, document: Document) -> None:
        super().__init__()
        self.document = document

    async def conclude(self, review: Review) -> Decision:
        return Decision(uid=review.uid, allowed=True, object_document=self.document)


def test_an_explanation_is_made_beside_the_event_loop() -> None:
    document = WatchedDocument(b"{}")
    with open_door(ExplainingEngine(document)) as door:
        assert door.post("/explain?blame=true").code == 200
    assert set(document.threads) == {"pratique-reviews"}


@pytest.mark.parametrize("path", ["/explain?timeout=1s", "/explain?blame=true&timeout=1s"])
def test_an_explanation_ends_with_the_time_of_its_review(path: str) -> None:
    document = EndlessDocument()
    with open_door(ExplainingEngine(document)) as door:
        assert door.post(path).code == 504
        assert document.ended.wait(60)


@pytest.mark.parametrize("path", ["/explain", "/explain?blame=false", "/admit?blame=true"])
def test_other_answers_have_no_blame(allowing: Door, path: str) -> None:
    answer = allowing.post(path)
    assert answer.code == 200
    assert "blame" not in json.dumps(answer.json)


@pytest.mark.parametrize("value", ["", "True", "1", "yes"])
def test_an_invalid_blame_parameter_is_a_bad_request(allowing: Door, value: str) -> None:
    answer = allowing.post(f"/explain?blame={value}")
    assert (answer.code, answer.json["reason"]) == (400, "BadRequest")
    text = f'blame: Unsupported value: "{value}": supported values: "true", "false"'
    assert answer.json["message"] == text
