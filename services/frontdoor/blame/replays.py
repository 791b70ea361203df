"""Replays: the steps of a decision done again, on fields that remember them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frontdoor.blame.fields import (
    NOBODY,
    TrackedField,
    histories,
    inherit_history,
    insert_item,
    tracked_root,
    remove_item,
    remove_member,
    write,
    write_member,
)
from pratique.admission.controllers import Phase
from pratique.admission.outcomes import OutcomeStatus as StepOutcome
from pratique.apimachinery.json_values import unescape
from pratique.apimachinery.patches import PatchError, apply_patch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frontdoor.chain.decisions import Decision, Step
    from pratique.apimachinery.json_values import JSON, JSONObject

_REFUSALS = frozenset({StepOutcome.DENIED, StepOutcome.FAILED})
_WEBHOOKS = "MutatingAdmissionWebhook"
_TYPE_FIELDS = ("apiVersion", "kind")


def replay(decision: Decision, object_received: JSON) -> TrackedField:
    """Do again what the steps of a decision did to the object received.

    What the object then is otherwise than the decision says, nobody known has done: a mutating policy that sees
    the object in another version tells its patch in that version.
    """
    replaying = _Replay(object_received)
    for index in _applied_steps(decision):
        replaying.run(index, decision.steps[index])
    write(replaying.root, decision.object_document.data, NOBODY)
    return replaying.root


def _applied_steps(decision: Decision) -> Iterator[int]:
    """The steps whose patches reached the object.

    What validating controllers want changed is done once nothing stands against it, and what the members of a
    controller did comes to nothing where one of them fails.
    """
    steps = decision.steps
    failed = {_controller_run(step) for step in steps if step.outcome in _REFUSALS and step.controller != _WEBHOOKS}
    for index, step in enumerate(steps):
        counts = decision.allowed or (step.phase is Phase.MUTATE and _controller_run(step) not in failed)
        if step.patch and counts:
            yield index


def _controller_run(step: Step) -> tuple[str, int, Phase]:
    return step.controller, step.round, step.phase


class _Replay:
    """An object on its way through the steps."""

    def __init__(self, object_received: JSON) -> None:
        self.root = tracked_root(object_received)
        self._value = object_received

    def run(self, index: int, step: Step) -> None:
        """Do what one step did; nothing, where its patch does not fit."""
        try:
            after = apply_patch(self._value, step.patch)
        except PatchError:
            return
        if step.controller == _WEBHOOKS:
            after = _restore_type(after, self._value)
        for operation in step.patch:
            _apply_operation(self.root, operation, index)
        write(self.root, after, index)
        self._value = after


def _restore_type(after: JSON, before: JSON) -> JSON:
    """What a webhook leaves out of an object's type is put in again: ``frontdoor.chain.mutating_webhooks``."""
    if not isinstance(after, dict) or not isinstance(before, dict):
        return after
    return after | {name: before[name] for name in _TYPE_FIELDS if name in before}


def _apply_operation(root: TrackedField, operation: JSONObject, step: int) -> None:
    """Do one operation, which is known to fit."""
    match operation["op"]:
        case "add":
            _add(root, operation["path"], operation.get("value"), step)
        case "replace":
            _replace(root, operation["path"], operation.get("value"), step)
        case "remove":
            _remove(root, operation["path"], step)
        case "copy":
            _add(root, operation["path"], _find(root, operation["from"]).value, step)
        case "move":
            _move(root, operation["from"], operation["path"], step)
        case _:
            """A test changes nothing."""


def _move(root: TrackedField, source: str, target: str, step: int) -> None:
    field = _find(root, source)
    value, remembered = field.value, histories(field)
    _remove(root, source, step)
    inherit_history(_add(root, target, value, step), remembered)


def _add(root: TrackedField, path: str, value: JSON, step: int) -> TrackedField:
    container, key = _place(root, path)
    if container.items is not None:
        index = _insertion_index(key, len(container.items))
        insert_item(container, index, value, step)
        return container.items[index]
    write_member(container, key, value, step)
    return _child(container, key)


def _replace(root: TrackedField, path: str, value: JSON, step: int) -> None:
    if path == "":
        write(root, value, step)
        return
    container, key = _place(root, path)
    if container.items is not None:
        write(_child(container, key), value, step)
    else:
        write_member(container, key, value, step)


def _remove(root: TrackedField, path: str, step: int) -> None:
    container, key = _place(root, path)
    if container.items is not None:
        remove_item(container, _index(key, len(container.items)), step)
    else:
        remove_member(container, key, step)


def _find(root: TrackedField, path: str) -> TrackedField:
    return _walk(root, path.split("/")[1:])


def _place(root: TrackedField, path: str) -> tuple[TrackedField, str]:
    """The opened container of what a pointer names, and its key there."""
    _, *steps = path.split("/")
    container = _walk(root, steps[:-1])
    container.open()
    return container, unescape(steps[-1])


def _walk(field: TrackedField, steps: Sequence[str]) -> TrackedField:
    for step in map(unescape, steps):
        field.open()
        field = _child(field, step)
    return field


def _child(container: TrackedField, key: str) -> TrackedField:
    if container.items is not None:
        return container.items[_index(key, len(container.items))]
    return (container.members or {})[key]


def _index(key: str, length: int) -> int:
    """As ``pratique.apimachinery.patches``: negative ones count from the end."""
    return int(key) % length


def _insertion_index(key: str, length: int) -> int:
    return length if key == "-" else int(key) % (length + 1)
