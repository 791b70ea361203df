"""Elements: what an item of a list or a field of an object is known by, as paths in messages write it.

Sources: ``sigs.k8s.io/structured-merge-diff/v6``: ``fieldpath/element.go`` and ``typed/helpers.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.json_values import encode
from pratique.schemas import Merge, Structure
from pratique.statuses import go_quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.json_values import JSON, JSONObject
    from pratique.schemas import ListType


class UnidentifiedError(Exception):
    """An item of a list that is merged says too little, or too much, to be told from others."""


def field_element(name: str) -> str:
    """Write a field: ``.spec``."""
    return f".{name}"


def index_element(index: int) -> str:
    """Write an item of a list that is not merged: ``[0]``."""
    return f"[{index}]"


def item_element(kind: ListType, item: JSON) -> str:
    """Write what an item of a list that is merged is known by: ``[name="a"]``, or ``[="a"]`` in a set.

    Items of the same element are the same item.

    Raises:
        UnidentifiedError: it is known by nothing.
    """
    if kind.merge is Merge.SET or not kind.keys:
        return f"[={_scalar(item)}]"
    if item is None:
        raise UnidentifiedError("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise UnidentifiedError("associative list with keys may not have non-map elements")
    keys = dict(_keys(kind, item))
    if not keys:
        named = " ".join(map(go_quoted, kind.keys))
        raise UnidentifiedError(
            f"associative list with keys has an element that omits all key fields [{named}] (and doesn't have"
            " default values for any key fields)"
        )
    return f"[{','.join(f'{name}={_text(value)}' for name, value in sorted(keys.items()))}]"


def _keys(kind: ListType, item: JSONObject) -> Iterator[tuple[str, JSON]]:
    defaults = kind.items.defaults if isinstance(kind.items, Structure) else {}
    for key in kind.keys:
        if key in item:
            yield key, item[key]
        elif key in defaults:
            yield key, defaults[key]


def _scalar(item: JSON) -> str:
    if isinstance(item, dict):
        raise UnidentifiedError("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise UnidentifiedError("not supported: associative list with lists as elements")
    if item is None:
        raise UnidentifiedError("associative list without keys has an element that's an explicit null")
    return _text(item)


def _text(value: JSON) -> str:
    return go_quoted(value) if isinstance(value, str) else encode(value).decode()
