"""Results as a person reads them: on a terminal, and in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from measures import Figures
from results import Results

_COLUMNS: dict[str, tuple[str, Callable[[float], str]]] = {
    "p50": ("p50 ms", lambda value: f"{value * 1e3:,.3f}"),
    "p99": ("p99 ms", lambda value: f"{value * 1e3:,.3f}"),
    "rate": ("req/s", lambda value: f"{value:,.0f}"),
    "cpu": ("CPU ms/review", lambda value: f"{value * 1e3:,.3f}"),
    "generator_cpu": ("generator's CPU ms", lambda value: f"{value * 1e3:,.3f}"),
    "mebibytes": ("MiB", lambda value: f"{value:,.1f}"),
    "reviews": ("reviews", lambda value: f"{value:,.0f}"),
}
"""The figures that are shown, in this order, where a section has them."""

TITLES = {
    "paths": "Paths and their floors, HTTP",
    "paths, TLS": "Paths and their floors, TLS",
    "payloads": "Sizes of reviews, one connection",
    "policies": "/validate by policies in CEL that match",
    "webhooks": "/validate by webhooks over gRPC that match",
    "validators": "/validate by validators",
    "waits": "Validators that take 20 to 50 ms",
    "tails": "The highest rate, and half of it",
    "memory": "Memory",
    "start-up": "Start-up",
    "expression": "An expression in CEL",
    "beside": "Reviews beside an expression that costs all it may",
    "matching": "Webhooks of which three match, in the front door alone",
    "mutators": "All mutating controllers, in the mutator alone",
    "offline": "Offline",
    "peers": "Peers on the same work, TLS",
}
"""Of the sections, in the order in which they are shown."""

Row = tuple[str, ...]


def goals(results: Results) -> list[Row]:
    """The goals, with a heading."""
    rows: list[Row] = [("goal", "wanted", "figure", "reached")]
    for goal in results.goals:
        figure = "not measured" if goal.figure is None else f"{goal.figure:,.2f}"
        reached = {None: "", True: "yes", False: "no"}[goal.reached] if goal.wanted else ""
        rows.append((goal.goal, goal.wanted, figure, reached))
    return rows


def sections(results: Results) -> Iterable[tuple[str, list[Row]]]:
    """Each section's title and rows, the first of which is a heading."""
    for name, title in TITLES.items():
        if section := results.sections.get(name):
            lines = [
                (target, shape, figures)
                for target, shapes in section.items()
                for shape, figures in shapes.items()
            ]
            shown = [key for key in _COLUMNS if any(key in figures for *_, figures in lines)]
            heading: Row = ("", "", *(_COLUMNS[key][0] for key in shown))
            yield (
                title,
                [heading, *((target, shape, *_cells(figures, shown)) for target, shape, figures in lines)],
            )


def _cells(figures: Figures, shown: Sequence[str]) -> Iterable[str]:
    return (_COLUMNS[key][1](figures[key]) if key in figures else "" for key in shown)


def as_text(rows: Sequence[Row]) -> str:
    """Columns for a terminal: words to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < _WORDS else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


_WORDS = 2
"""Columns that hold words, in every table."""


def as_markdown(rows: Sequence[Row]) -> str:
    """A table in Markdown."""
    heading, *rest = rows
    rule = tuple("---" if column < _WORDS else "---:" for column in range(len(heading)))
    return "\n".join(f"| {' | '.join(row)} |" for row in (heading, rule, *rest))
