"""Objects of all kinds, decided as a real kube-apiserver decided about them."""

from __future__ import annotations

import pytest

from differential import recorded_objects
from differential.objects import difference_of, our_answer
from differential.recorded_objects import RecordedObject
from support.stored_objects import Row, decide_row, difference, rows

NOT_THE_SAME = {
    "objects-00168": "message",
    "objects-00592": "message",
    "objects-02528": "code",
    "objects-02551": "code",
}
"""Rows that are decided otherwise, with what differs: argued in docs/vectors.md."""


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row['object'].get('kind')}-{row['id']}")
def test_an_object_is_decided_as_an_api_server_decides(row: Row) -> None:
    assert difference(row, decide_row(row)) == NOT_THE_SAME.get(row["id"], "")


@pytest.mark.parametrize("row", recorded_objects.read(), ids=str)
def test_a_drawn_object_is_answered_as_an_api_server_answers(row: RecordedObject) -> None:
    assert difference_of(row.request, row.answer, our_answer(row.request, row.old)) is None
