"""Edits: change an object member by member, and record the JSON Patch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from pratique.admission.results import Allow, Patch
from pratique.apimachinery import statuses
from pratique.apimachinery.diff import identical
from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.field_errors import FieldPath
from pratique.apimachinery.json_values import JSON, JSONObject, json_type, member, pointer

Path: TypeAlias = Sequence[str | int]
"""The path of a value, without escaping: ``("spec", "containers", 0, "image")``."""


class Edits:
    """A draft of an object, and the JSON Patch that leads to it.

    The object itself is never changed; the draft shares everything with it that is not edited. The patch has one
    operation for each member that really changes. Example::

        edits = Edits(review.object)
        if edits.get(("spec", "priority")) is None:
            edits.set(("spec", "priority"), 0)
        return edits.answer()
    """

    def __init__(self, document: JSON) -> None:
        """Start with ``document``, a JSON object or array."""
        self._document = document
        self._operations: list[JSONObject] = []
        # Containers by id(), kept alive so that ids stay unique: copies for the draft, and values of operations. Edits
        # inside a value need no further operation.
        self._copies: dict[int, JSON] = {}
        self._values: dict[int, JSON] = {}

    @property
    def document(self) -> JSON:
        """The object with all edits so far. Do not change it in place."""
        return self._document

    @property
    def changed(self) -> bool:
        """Whether anything differs from the original object."""
        return bool(self._operations)

    @property
    def operations(self) -> tuple[JSONObject, ...]:
        """The JSON Patch from the original object to ``document``."""
        return tuple(self._operations)

    def get(self, path: Path) -> JSON:
        """Return the current value; None if it is missing. Do not change it in place."""
        return member(self._document, *path)

    def set(self, path: Path, value: JSON) -> None:
        """Set a member, or an existing item of an array; missing parents become objects.

        The value is copied. Nothing happens if it is already there.

        Raises:
            RefusalError: with code 400: a value on the path is not an object or array as it must be.
            IndexError: an array has no such item.
        """
        container, depth = self._nearest(path[:-1])
        missing = path[depth + 1 :]
        if not missing and _contains(container, path[-1]) and identical(container[path[-1]], value):
            return
        new = _deep_copy(value)
        for step in reversed(missing):
            new = {_member_name(step): new}
        self._put(path[: depth + 1], new)

    def append(self, path: Path, value: JSON) -> None:
        """Append a value to an array, which is created if it is missing.

        Raises:
            RefusalError: with code 400: the array, or a value on the path, has another type.
        """
        items = self.get(path)
        if items is None:
            self.set(path, [value])
            return
        if not isinstance(items, list):
            raise _type_refusal(path, 0, items)
        self._put((*path, len(items)), _deep_copy(value))

    def remove(self, path: Path) -> None:
        """Remove a member or an item; nothing happens if it is missing."""
        if not _contains(self.get(path[:-1]), path[-1]):
            return
        container, inside = self._own(path[:-1])
        del container[path[-1]]
        if not inside:
            self._operations.append({"op": "remove", "path": pointer(path)})

    def answer(
        self, *, warnings: tuple[str, ...] = (), audit_annotations: Mapping[str, str] | None = None
    ) -> Patch | Allow:
        """Return the answer that allows the request, with the changes if there are any."""
        annotations = audit_annotations or {}
        if not self._operations:
            return Allow(warnings, annotations)
        return Patch(self.operations, self.document, warnings=warnings, audit_annotations=annotations)

    def _nearest(self, parents: Path) -> tuple[JSON, int]:
        """Return the innermost existing container on a path, and the number of steps to it."""
        container = self._document
        for depth, step in enumerate(parents):
            if not _accepts_step(step, container):
                raise _type_refusal(parents[:depth], step, container)
            child = container[step] if _contains(container, step) else None
            if child is None:
                return container, depth
            container = child
        return container, len(parents)

    def _put(self, path: Path, new: JSON) -> None:
        """Set a member or item of an existing container; the index after the last item appends."""
        key = path[-1]
        container, inside = self._own(path[:-1])
        if not _accepts_step(key, container):
            raise _type_refusal(path[:-1], key, container)
        existing = _contains(container, key)
        if isinstance(container, dict) or existing:
            container[key] = new
        elif key == len(container):
            container.append(new)
        else:
            raise IndexError(f"{pointer(path)}: there is no such item")
        if inside:
            return
        self._operations.append({"op": "replace" if existing else "add", "path": pointer(path), "value": new})
        if isinstance(new, dict | list):
            self._values[id(new)] = new

    def _own(self, path: Path) -> tuple[JSON, bool]:
        """Return the draft's own copy of a container, and whether it is inside the value of an operation."""
        container = self._document = self._copied(self._document)
        inside = False
        for step in path:
            child = container[step]
            inside = inside or id(child) in self._values
            if not inside:
                child = container[step] = self._copied(child)
            container = child
        return container, inside

    def _copied(self, container: JSON) -> JSON:
        if id(container) in self._copies or not isinstance(container, dict | list):
            return container
        copy = container.copy()
        self._copies[id(copy)] = copy
        return copy


def _contains(container: JSON, key: str | int) -> bool:
    if isinstance(container, list):
        return isinstance(key, int) and 0 <= key < len(container)
    return isinstance(container, dict) and key in container


def _member_name(step: str | int) -> str:
    if isinstance(step, int):
        raise IndexError(f"there is no array that could have an item {step}")
    return step


def _deep_copy(value: JSON) -> JSON:
    """Copy a value's containers; scalars are immutable."""
    if isinstance(value, dict):
        return {name: _deep_copy(child) for name, child in value.items()}
    return [_deep_copy(child) for child in value] if isinstance(value, list) else value


def _accepts_step(step: str | int, container: JSON) -> bool:
    """Tell whether a container has members, for a name, or items, for an index."""
    return isinstance(container, dict if isinstance(step, str) else list)


def _type_refusal(path: Path, step: str | int, found: JSON) -> RefusalError:
    """Return the error of an object with another type where a member or item must be."""
    where = str(FieldPath(tuple(path))) or "the object"
    wanted = "a mapping" if isinstance(step, str) else "a list"
    return RefusalError(statuses.bad_request(f"{where}: must be {wanted}, not {json_type(found)}"))
