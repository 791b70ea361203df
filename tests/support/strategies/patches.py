"""Strategies: JSON Patches that fit an object, such as webhooks write."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from pratique.apimachinery.json_values import JSON, JSONObject, member, pointer
from pratique.apimachinery.patches import apply_patch
from support.strategies.json_values import KEYS, named_items, values

_ROOT: tuple[str | int, ...] = ()


@st.composite
def patched_objects(draw: DrawFn) -> tuple[JSON, list[list[JSONObject]]]:
    """An object, and the patches of some steps, each of which fits what the one before left."""
    received = now = draw(named_items() | st.dictionaries(KEYS, values(6), max_size=3))
    patches = []
    for length in draw(st.lists(st.integers(1, 3), max_size=4)):
        patch: list[JSONObject] = []
        for _ in range(length):
            operation = draw(_operations(now))
            now = apply_patch(now, [operation])
            patch.append(operation)
        patches.append(patch)
    return received, patches


@st.composite
def _operations(draw: DrawFn, document: JSON) -> JSONObject:
    there = list(_paths(document, _ROOT))
    kind = draw(st.sampled_from(["add", "remove", "replace", "copy", "move"]))
    if not there:
        kind = "add"
    match kind:
        case "add":
            return {"op": kind, "path": draw(_new_place(document)), "value": draw(values(4))}
        case "remove":
            return {"op": kind, "path": pointer(draw(st.sampled_from(there)))}
        case "replace":
            # The value of another place, or a whole that differs little, is what webhooks write.
            other = member(document, *draw(st.sampled_from(there)))
            path = pointer(draw(st.sampled_from(there)))
            return {"op": kind, "path": path, "value": draw(st.just(other) | values(4))}
        case "copy":
            source = draw(st.sampled_from(there))
            return {"op": kind, "from": pointer(source), "path": draw(_new_place(document))}
        case _:
            source = draw(st.sampled_from(there))
            removed = apply_patch(document, [{"op": "remove", "path": pointer(source)}])
            siblings = member(removed, *source[:-1])
            if isinstance(siblings, list) and draw(st.booleans()):
                place = pointer((*source[:-1], draw(st.integers(0, len(siblings)))))
            else:
                place = draw(_new_place(removed))
            return {"op": kind, "from": pointer(source), "path": place}


@st.composite
def _new_place(draw: DrawFn, document: JSON) -> str:
    containers = [path for path in (_ROOT, *_paths(document, _ROOT)) if _holds(member(document, *path))]
    path = draw(st.sampled_from(containers))
    container = member(document, *path)
    if isinstance(container, dict):
        return pointer((*path, draw(KEYS)))
    index = draw(st.integers(0, len(container)) | st.just("-"))
    return pointer((*path, index))


def _paths(value: JSON, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in children:
        yield (*path, key)
        yield from _paths(child, (*path, key))


def _holds(value: JSON) -> bool:
    return isinstance(value, dict | list)
