"""Equality as Kubernetes means it: what is absent equals what is empty.

Source: ``k8s.io/apimachinery/third_party/forked/golang/reflect/deep_equal.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.differences import diff, identical

if TYPE_CHECKING:
    from pratique.json_values import JSON


def semantically_equal(first: JSON, second: JSON) -> bool:
    """Tell whether two values say the same: ``equality.Semantic.DeepEqual``.

    Null, the empty text and empty objects and arrays count as absent members of what holds them.
    """
    return identical(_without_empty(first), _without_empty(second))


def differing_places(first: JSON, second: JSON) -> list[str]:
    """Where two values say different things, as JSON Pointers; their contents are not among them."""
    return [operation["path"] for operation in diff(_without_empty(first), _without_empty(second))]


def _without_empty(value: JSON) -> JSON:
    if isinstance(value, dict):
        cleaned = {name: _without_empty(child) for name, child in value.items()}
        return {name: child for name, child in cleaned.items() if not _is_empty(child)} or None
    if isinstance(value, list):
        return [_without_empty(item) for item in value] or None
    return None if value == "" else value


def _is_empty(value: JSON) -> bool:
    return value is None or value == ""
