"""Strategies: JSON values, and pairs of documents that differ here and there."""

from __future__ import annotations

from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSON

KEYS = st.sampled_from(["", "a", "b", "name", "a/b", "~", "~1", "0", "-", "é"])
"""Few, so that two documents often have the same; the ones that a pointer has to escape are among them."""

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.sampled_from([0.0, 1.0, 2.5])
    | st.sampled_from(["", "x", "y"])
)
"""Few, too; ``true``, ``1`` and ``1.0`` are equal in Python, and not in JSON."""


def values(leaves: int = 12) -> st.SearchStrategy[JSON]:
    """JSON values with some ``leaves`` at most."""
    return st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
        max_leaves=leaves,
    )


def objects() -> st.SearchStrategy[JSON]:
    """Objects of anything."""
    return st.dictionaries(KEYS, values(), max_size=4)


def named_items() -> st.SearchStrategy[JSON]:
    """Objects with an array of named ones, as a Pod has containers."""
    item = st.fixed_dictionaries({"name": st.sampled_from("abcdef")}, optional={"x": values(3), "y": SCALARS})
    return st.fixed_dictionaries({"items": st.lists(item, max_size=6)})


def documents() -> st.SearchStrategy[JSON]:
    """Whole documents: objects and arrays."""
    return objects() | named_items() | st.lists(values(), max_size=6)
