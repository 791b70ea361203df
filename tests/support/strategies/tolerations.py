"""Strategies: tolerations of few keys and values, so that one often covers another."""

from __future__ import annotations

from hypothesis import strategies as st

from pratique.pods.tolerations import EFFECTS, OPERATORS, Toleration

KEYS = st.sampled_from(["", "a", "b"])
VALUES = st.sampled_from(["", "x"])
SECONDS = st.none() | st.integers(0, 2)


def any_tolerations() -> st.SearchStrategy[Toleration]:
    """Tolerations of any form, those that an API server would refuse among them."""
    operators = st.sampled_from(["", *OPERATORS, "Lt"])
    return st.builds(Toleration, KEYS, operators, VALUES, st.sampled_from(["", *EFFECTS]), SECONDS)


def lists() -> st.SearchStrategy[list[Toleration]]:
    """Some tolerations."""
    return st.lists(any_tolerations(), max_size=5)
