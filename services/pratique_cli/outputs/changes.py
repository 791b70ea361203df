"""What JSON Patch operations change, in a person's words: path, value before, value after."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, TypeAlias

from pratique.json_values import JSON, JSONObject, encode, member
from pratique.patches import apply_patch
from pratique.pointers import unescape

if TYPE_CHECKING:
    from collections.abc import Iterable

Path: TypeAlias = tuple[str | int, ...]
"""Where a value is: members by name, items by position."""

_PLAIN = re.compile(r"[A-Za-z0-9_$-]+")


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """One change. Values are JSON text, None where there is none to show."""

    sign: str
    """``+`` added, ``-`` removed, ``~`` replaced."""
    path: str
    """For example ``spec.containers[0].image``."""
    before: str | None = None
    """The value that was there."""
    after: str | None = None
    """The value that is there now."""


class ChangeTeller:
    """Follows an object through the steps of a review and tells what each step changes."""

    def __init__(self, received: JSON) -> None:
        """Start from the object as it was received; it is not changed."""
        self._object = received

    @property
    def is_secret(self) -> bool:
        """True where values are not to be shown, as ``kubectl diff`` does not show them."""
        return is_secret(self._object)

    def tell(self, operations: Iterable[JSONObject]) -> list[Change]:
        """Apply operations, and tell what they change; tests change nothing."""
        return [change for operation in operations for change in self._apply(operation)]

    def _apply(self, operation: JSONObject) -> list[Change]:
        told = self._changes(operation)
        self._object = apply_patch(self._object, (operation,))
        return told

    def _changes(self, operation: JSONObject) -> list[Change]:
        path = self._path(operation["path"])
        before = member(self._object, *path)
        match operation["op"]:
            case "remove":
                return [_removed(path, before)]
            case "replace":
                return [_written(path, before, operation.get("value"))]
            case "add":
                return [self._added(path, before, operation.get("value"))]
            case "copy":
                return [self._added(path, before, self._source(operation)[1])]
            case "move":
                source, value = self._source(operation)
                return [_removed(source, value), self._added(path, before, value)]
            case _:
                return []

    def _source(self, operation: JSONObject) -> tuple[Path, JSON]:
        path = self._path(operation["from"])
        return path, member(self._object, *path)

    def _added(self, path: Path, before: JSON, value: JSON) -> Change:
        into_array = isinstance(member(self._object, *path[:-1]), list)
        return _written(path, None if into_array else before, value)

    def _path(self, pointer: str) -> Path:
        """Split a pointer, with positions in arrays as numbers; ``-`` is the position that will be."""
        path: Path = ()
        for token in pointer.split("/")[1:]:
            parent = member(self._object, *path)
            path += (_index(token, len(parent)) if isinstance(parent, list) else unescape(token),)
        return path


def _index(step: str, length: int) -> int:
    if step == "-":
        return length
    # The API server's library lets negative positions count from the end.
    return int(step) % (length or 1) if step.startswith("-") else int(step)


def _removed(path: Path, before: JSON) -> Change:
    return Change("-", path_text(path), before=_value_text(before))


def _written(path: Path, before: JSON, after: JSON) -> Change:
    if before is None:
        return Change("+", path_text(path), after=_value_text(after))
    return Change("~", path_text(path), before=_value_text(before), after=_value_text(after))


def is_secret(value: JSON) -> bool:
    """True for a core Secret."""
    return (member(value, "apiVersion"), member(value, "kind")) == ("v1", "Secret")


def path_text(path: Path) -> str:
    """Write a path as Kubernetes does: ``metadata.labels[example.com/app]``, ``spec.containers[0]``."""
    text = ""
    for step in path:
        if isinstance(step, int) or not _PLAIN.fullmatch(step):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text or "the whole object"


def _value_text(value: JSON) -> str:
    return encode(value).decode()
