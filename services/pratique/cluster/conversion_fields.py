"""What converters of versioned kinds are made of: typed access to fields, and changes to copies of objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias, TypeVar, cast

from pratique.apimachinery.errors import ConversionError
from pratique.apimachinery.json_values import JSON, JSONObject, json_type

T = TypeVar("T")


def mapping(value: JSON, name: str) -> JSONObject:
    """Read an object; a missing one is empty. ``name`` is the member's name for the error message."""
    return _checked_type(value, dict, {}, f"{name}: must be a mapping")


def mappings(value: JSON, name: str) -> list[JSONObject]:
    """Read an array of objects; a missing one is empty."""
    return [mapping(item, name) for item in _checked_type(value, list, [], f"{name}: must be a list")]


def text(value: JSON, name: str) -> str:
    """Read a string; a missing one is empty."""
    return _checked_type(value, str, "", f"{name}: must be a string")


def _checked_type(value: JSON, wanted: type[T], absent: T, problem: str) -> T:
    if value is None:
        return absent
    if not isinstance(value, wanted):
        raise ConversionError(f"{problem}, not {json_type(value)}")
    return value


def changed(parent: JSONObject, name: str, change: ObjectChange) -> JSONObject:
    """A copy with one member, itself an object, changed; the object itself if it lacks the member."""
    if parent.get(name) is None:
        return parent
    return {**parent, name: change(mapping(parent[name], name))}


def changed_items(parent: JSONObject, name: str, change: ObjectChange) -> JSONObject:
    """A copy with every item of an array changed; the object itself if it lacks the array."""
    if parent.get(name) is None:
        return parent
    return {**parent, name: [change(item) for item in mappings(parent[name], name)]}


def renamed(source: JSONObject, names: Mapping[str, str]) -> JSONObject:
    """A copy with members renamed; a member that already has a new name is dropped."""
    taken = {new for old, new in names.items() if old in source}
    return {names.get(name, name): value for name, value in source.items() if name not in taken}


def without(source: JSONObject, *names: str) -> JSONObject:
    """A copy without some members."""
    return {name: value for name, value in source.items() if name not in names}


def present(**members: JSON) -> JSONObject:
    """An object of the members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def annotation(document: JSONObject, key: str) -> str | None:
    """Read an annotation; None if it is missing."""
    value = mapping(mapping(document.get("metadata"), "metadata").get("annotations"), "annotations").get(key)
    return None if value is None else text(value, "annotations")


def annotated(document: JSONObject, added: Mapping[str, str], removed: Iterable[str] = ()) -> JSONObject:
    """A copy with annotations added and removed; an empty set of annotations is left out."""
    metadata = mapping(document.get("metadata"), "metadata")
    before = mapping(metadata.get("annotations"), "annotations")
    after = {**without(before, *removed), **added}
    if after == before:
        return document
    kept = {**metadata, "annotations": after} if after else without(metadata, "annotations")
    return {**document, "metadata": kept}


def integer(value: JSON, name: str) -> int:
    """Read an integer; a missing one is 0."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise ConversionError(f"{name}: must be an integer, not {json_type(value)}")
    return int(cast("float", value))


ObjectChange: TypeAlias = Callable[[JSONObject], JSONObject]
"""Makes a changed copy of an object. Raises ConversionError if it cannot."""


class VersionConverter(NamedTuple):
    """Converts one version of a kind from and to the shared form."""

    to_shared: ObjectChange
    """From this version to the form that all versions share, as Kubernetes' internal version."""
    from_shared: ObjectChange
    """From the shared form to this version."""


KindConverters: TypeAlias = Mapping[str, VersionConverter]
"""The converters of a kind, by ``apiVersion``."""


def unconverted(document: JSONObject) -> JSONObject:
    """Return the object itself."""
    return document


SHARED = VersionConverter(unconverted, unconverted)
"""The converter of a version that is the shared form itself."""
