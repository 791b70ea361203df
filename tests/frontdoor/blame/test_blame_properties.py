from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.diff import identical
from pratique.apimachinery.json_values import JSON, JSONObject, encode
from pratique_frontdoor.blame.changes import blame_of
from support.blame_cases import applied, decided
from support.strategies.json_values import documents
from support.strategies.patches import patched_objects

Patched: TypeAlias = "tuple[JSON, list[list[JSONObject]]]"


@given(patched_objects())
def test_the_changes_make_the_object_that_came_out_of_the_one_that_came_in(patched: Patched) -> None:
    received, patches = patched
    decision = decided(received, *patches)
    changes = blame_of(decision, received).changes
    assert identical(applied(received, changes), decision.object_document.data)


@given(patched_objects())
def test_each_change_changes_something_and_nothing_is_told_twice(patched: Patched) -> None:
    received, patches = patched
    changes = blame_of(decided(received, *patches), received).changes
    assert not [each for each in changes if identical(each.before, each.after)]
    places = [(each.kind == "remove", each.path) for each in changes]
    assert len(places) == len(set(places))


@given(patched_objects())
def test_every_change_is_some_steps_and_steps_are_in_their_order(patched: Patched) -> None:
    received, patches = patched
    for change in blame_of(decided(received, *patches), received).changes:
        assert change.step is not None
        steps = (*change.earlier, change.step)
        assert all(before < after for before, after in pairwise(steps))
        assert set(steps) <= set(range(len(patches)))


@given(patched_objects())
def test_what_is_undone_is_nobodys(patched: Patched) -> None:
    received, patches = patched
    undone = [*patches, [{"op": "replace", "path": "", "value": received}]]
    assert blame_of(decided(received, *undone), received).changes == ()


@given(patched_objects(), st.data())
def test_a_single_step_is_blamed_for_all(patched: Patched, data: st.DataObject) -> None:
    received, patches = patched
    whole = [operation for patch in patches for operation in patch]
    idle = data.draw(st.integers(0, 2))
    changes = blame_of(decided(received, *[[]] * idle, whole), received).changes
    assert {each.step for each in changes} <= {idle}


@given(documents(), documents())
def test_what_no_step_has_done_is_told_without_one(received: JSON, final: JSON) -> None:
    decision = decided(received, [{"op": "replace", "path": "", "value": final}])
    changes = blame_of(dataclasses.replace(decision, steps=()), received).changes
    assert identical(applied(received, changes), final)
    assert {each.step for each in changes} <= {None}


@given(patched_objects())
def test_nothing_is_changed_in_place(patched: Patched) -> None:
    before = encode(patched)
    blame_of(decided(patched[0], *patched[1]), patched[0])
    assert encode(patched) == before
