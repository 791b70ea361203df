"""A comparison finds what differs, and nothing that chance or storage made."""

from __future__ import annotations

from pathlib import Path

import pytest

from differential.comparison import Difference, compare, compare_calls
from differential.listed import LISTED, ListedDifference, is_listed
from differential.pairs import Answer
from differential.shrinking import shrink
from pratique.apimachinery.json_values import JSON
from support.webhook_servers import Received

POD = {"kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeName": "n"}}


@pytest.mark.parametrize(
    ("ours", "what"),
    [
        (Answer(200, object=POD), "decision"),
        (Answer(422, "Forbidden", "no"), "code"),
        (Answer(403, "Invalid", "no"), "reason"),
        (Answer(403, "Forbidden", "No"), "message"),
        (Answer(403, "Forbidden", "no", ("mind",)), "warnings"),
        (Answer(403, "Forbidden", "no", annotations={"example.com_a": "2"}), "audit annotation"),
    ],
)
def test_an_answer_that_differs_is_found(ours: Answer, what: str) -> None:
    real = Answer(403, "Forbidden", "no", annotations={"example.com/a": "1"} if "audit" in what else {})
    difference = compare(real, ours)
    assert difference is not None
    assert difference.what == what


def test_a_field_that_differs_is_found_where_it_is() -> None:
    difference = compare(Answer(201, object=POD), Answer(200, object=POD | {"spec": {"nodeName": "m"}}))
    assert difference is not None
    assert (difference.path, difference.real, difference.ours) == ("spec.nodeName", "n", "m")


@pytest.mark.parametrize(
    "ours",
    [
        POD,
        POD | {"status": {"phase": "Pending"}},
        POD | {"metadata": {"name": "a", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}},
        POD | {"metadata": {"name": "a", "labels": {}, "annotations": None}},
    ],
)
def test_what_storage_adds_is_no_difference(ours: JSON) -> None:
    assert compare(Answer(201, object=POD), Answer(200, object=ours)) is None


def test_a_request_to_a_webhook_that_differs_is_found() -> None:
    def call(name: str) -> Received:
        body = f'{{"request": {{"uid": "x", "name": "{name}", "object": null}}}}'
        return Received("POST", "/allow?timeout=5s", {"accept": "application/json"}, body.encode(), None)

    assert compare_calls([call("a")], [call("a")]) is None
    difference = compare_calls([call("a")], [call("b")])
    assert difference is not None
    assert difference.path.endswith("review.request.name")
    assert compare_calls([call("a")], []) is not None


def test_shrinking_leaves_what_makes_the_difference() -> None:
    body = {
        "kind": "Pod",
        "metadata": {"name": "a", "labels": {"b": "c"}},
        "spec": {"x": [1, 2, 3], "y": {"z": 1}},
    }

    def differs(value: JSON) -> bool:
        return 2 in value.get("spec", {}).get("x", [])

    assert shrink(body, differs) == {"kind": "Pod", "metadata": {"name": "a"}, "spec": {"x": [2]}}


@pytest.mark.parametrize("listed", LISTED, ids=lambda listed: listed.shown)
def test_a_page_argues_each_difference_that_is_no_news(listed: ListedDifference) -> None:
    page = Path(__file__).parents[2] / "docs" / "differences.md"
    assert listed.shown in " ".join(page.read_text().split())


def test_a_listed_difference_is_of_the_same_field() -> None:
    real = "expected type of field 'other' is '' but provided type is 'string'"
    assert is_listed(Difference("message", real, "undefined field 'other'"))
    assert not is_listed(Difference("message", real, "undefined field 'value'"))
    assert not is_listed(Difference("message", "nothing of the kind", "undefined field 'other'"))
    assert not is_listed(Difference("object", "None", "true", "metadata.annotations.other"))
