"""Decisions whose steps only have patches, what is blamed for them, and the blamed changes applied."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

from pratique.admission.controllers import Phase
from pratique.admission.results import OutcomeStatus
from pratique.apimachinery.json_values import JSON, Document, JSONObject, pointer
from pratique.apimachinery.patches import apply_patch
from pratique_frontdoor.blame.changes import Change, blame_of
from pratique_frontdoor.blame.fields import ABSENT
from pratique_frontdoor.chain.decisions import Decision, Step


def mutation(*operations: JSONObject, controller: str = "Mutator", **changes: object) -> Step:
    """A step that changes the object."""
    values: dict[str, object] = {"phase": Phase.MUTATE, "name": controller, "outcome": OutcomeStatus.MUTATED}
    return Step(controller=controller, patch=operations, **(values | changes))  # type: ignore[arg-type]  # each test changes another field


def decided(received: JSON, *patches: Sequence[JSONObject]) -> Decision:
    """The decision after steps with these patches."""
    final = apply_patch(received, [operation for patch in patches for operation in patch])
    steps = tuple(mutation(*patch) for patch in patches)
    return Decision(uid="1", allowed=True, object_document=Document.from_data(final), steps=steps)


def blamed(received: JSON, *patches: Sequence[JSONObject]) -> list[tuple[str, str, JSON, JSON, list[int]]]:
    """For each change its kind, its path, its value before and after, and the steps that made it, in order."""
    return [told(change) for change in blame_of(decided(received, *patches), received).changes]


def told(change: Change) -> tuple[str, str, JSON, JSON, list[int]]:
    before = None if change.before is ABSENT else change.before
    after = None if change.after is ABSENT else change.after
    last = [] if change.step is None else [change.step]
    return change.kind.value, pointer(change.path), before, after, [*change.earlier, *last]


def applied(received: JSON, changes: Iterable[Change]) -> JSON:
    """Do to the object received what the changes tell."""
    root = [copy.deepcopy(received)]
    removed = [change for change in changes if change.kind == "remove"]
    for change in reversed(removed):
        container, key = _place(root, change)
        del container[key]
    for change in changes:
        if change.kind == "remove":
            continue
        container, key = _place(root, change)
        if change.kind == "add" and isinstance(container, list):
            assert int(key) <= len(container)
            container.insert(int(key), copy.deepcopy(change.after))
        else:
            assert isinstance(container, list) or (key in container) is (change.kind == "replace")
            container[key] = copy.deepcopy(change.after)
    return root[0]


def _place(root: JSON, change: Change) -> tuple[JSON, str | int]:
    *steps, key = (0, *change.path)
    for step in steps:
        root = root[step]
    return root, key
