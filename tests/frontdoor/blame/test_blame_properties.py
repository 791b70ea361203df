from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias

import msgspec
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
def test_the_changes_turn_the_received_object_into_the_decided_one(patched: Patched) -> None:
    received, patches = patched
    decision = decided(received, *patches)
    changes = blame_of(decision, received).changes
    assert identical(applied(received, changes), decision.object_document.data)


@given(patched_objects())
def test_every_change_differs_and_none_is_reported_twice(patched: Patched) -> None:
    received, patches = patched
    changes = blame_of(decided(received, *patches), received).changes
    assert not [change for change in changes if identical(change.before, change.after)]
    places = [(change.kind == "remove", change.path) for change in changes]
    assert len(places) == len(set(places))


@given(patched_objects())
def test_every_change_has_its_steps_in_order(patched: Patched) -> None:
    received, patches = patched
    for change in blame_of(decided(received, *patches), received).changes:
        assert change.step is not None
        steps = (*change.earlier, change.step)
        assert all(before < after for before, after in pairwise(steps))
        assert set(steps) <= set(range(len(patches)))


@given(patched_objects())
def test_a_change_that_is_undone_is_not_reported(patched: Patched) -> None:
    received, patches = patched
    undone = [*patches, [{"op": "replace", "path": "", "value": received}]]
    assert blame_of(decided(received, *undone), received).changes == ()


@given(patched_objects(), st.data())
def test_a_single_step_is_blamed_for_every_change(patched: Patched, data: st.DataObject) -> None:
    received, patches = patched
    whole = [operation for patch in patches for operation in patch]
    idle = data.draw(st.integers(0, 2))
    changes = blame_of(decided(received, *[[]] * idle, whole), received).changes
    assert {change.step for change in changes} <= {idle}


@given(documents(), documents())
def test_a_change_that_no_step_made_is_reported_without_a_step(received: JSON, final: JSON) -> None:
    decision = decided(received, [{"op": "replace", "path": "", "value": final}])
    changes = blame_of(msgspec.structs.replace(decision, steps=()), received).changes
    assert identical(applied(received, changes), final)
    assert {change.step for change in changes} <= {None}


@given(patched_objects())
def test_blame_does_not_modify_its_arguments(patched: Patched) -> None:
    before = encode(patched)
    blame_of(decided(patched[0], *patched[1]), patched[0])
    assert encode(patched) == before
