"""Regressions: the ratios of one run against those of another. Times are never compared."""

from __future__ import annotations

from collections.abc import Iterator

from goals import GOALS
from results import Results

TOLERANCE = 0.25
"""Of a ratio. Between runs on a machine that others use, medians differ by a tenth, and 99th percentiles by a fifth."""


def compared(now: Results, before: Results) -> list[str]:
    """The ratios that both runs have: where there are none, nothing was compared, and nothing can be said."""
    both = ((goal.name, goal.figure(now), goal.figure(before)) for goal in GOALS if goal.ratio)
    return [name for name, figure, old in both if figure is not None and old is not None]


def regressions(now: Results, before: Results) -> Iterator[str]:
    """Say which ratios have become worse by more than the tolerance; those that either run lacks are left out."""
    for goal in GOALS:
        figure, old = goal.figure(now), goal.figure(before)
        if not goal.ratio or figure is None or old is None:
            continue
        worse = old / figure if goal.more_is_better else figure / old
        if worse > 1 + TOLERANCE:
            yield f"{goal.name}: {figure:.2f}, where it was {old:.2f}"
