"""Results as a person reads them: on a terminal, and in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from measures import Figures
from results import NOT_ASKED_FOR, Reached, Results


def _microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f}" if seconds >= 1e-5 else f"{seconds * 1e6:.1f}"


_COLUMNS: dict[str, tuple[str, Callable[[float], str]]] = {
    "p50": ("p50 ms", lambda value: f"{value * 1e3:,.3f}"),
    "p99": ("p99 ms", lambda value: f"{value * 1e3:,.3f}"),
    "rate": ("req/s", lambda value: f"{value:,.0f}"),
    "cpu": ("CPU µs/review", _microseconds),
    "generator_cpu": ("generator's CPU µs", _microseconds),
    "mebibytes": ("MiB", lambda value: f"{value:,.1f}"),
    "reviews": ("reviews", lambda value: f"{value:,.0f}"),
}
"""The figures that are shown, in this order, where a section has them."""

TITLES = {
    "paths": "Paths and their floors, HTTP",
    "paths, TLS": "Paths and their floors, TLS",
    "payloads": "Sizes of reviews, one connection",
    "policies": "/validate by policies in CEL that match",
    "fan-out": "/validate by 100 policies in CEL, divided among validators",
    "mutating policies": "/mutate by a policy in CEL",
    "webhooks": "/validate by webhooks over gRPC that match",
    "validators": "/validate by validators",
    "decision log": "/validate in one process, by what is logged before its answer",
    "waits": "Validators that take 20 to 50 ms",
    "tails": "The highest rate, and half of it, the generator on a core of its own",
    "memory": "Memory",
    "start-up": "Start-up",
    "expression": "An expression in CEL",
    "beside": "Reviews beside an expression that costs all it may",
    "matching": "Webhooks of which three match, in the front door alone",
    "mutators": "All mutating controllers, in the mutator alone",
    "offline": "Offline, on two cores: manifests as reviews",
    "console": "Views of the console, with 10,000 decisions",
    "peers": "Peers on the same work, TLS",
}
"""Of the sections, in the order in which they are shown."""

Row = tuple[str, ...]


def goals(results: Results) -> list[Row]:
    """The goals, with a heading."""
    return [("goal", "wanted", "figure", "reached"), *(_goal(goal) for goal in results.goals)]


def _goal(goal: Reached) -> Row:
    if goal.figure is None:
        return (goal.goal, goal.wanted, "not measured", "")
    said = {None: "", True: "yes", False: "no"}[goal.reached]
    if goal.missed_by is not None:
        said += f", by {_part(goal.missed_by)}"
    return (goal.goal, goal.wanted, f"{goal.figure:,.2f}", said)


def missed(results: Results) -> list[str]:
    """Say in lines which goals are missed and by how much, and which could not be measured and why."""
    wanted = [goal for goal in results.goals if goal.wanted]
    failed = [goal for goal in wanted if goal.reached is False]
    left = [goal for goal in wanted if goal.figure is None and goal.note == NOT_ASKED_FOR]
    unknown = [goal for goal in wanted if goal.figure is None and goal.note != NOT_ASKED_FOR]
    unmeasured = f"{len(unknown)} could not be measured, {len(left)} not asked for in this run"
    return [
        f"{len(wanted)} goals: {len(failed)} missed, {unmeasured}",
        *(_missed(goal) for goal in failed),
        *(f"not measured: {goal.goal}: {goal.note}" for goal in unknown),
    ]


def _missed(goal: Reached) -> str:
    missed_by, note = _part(goal.missed_by or 0), f" ({goal.note})" if goal.note else ""
    return f"missed by {missed_by}: {goal.goal}: {goal.figure:,.2f}, where {goal.wanted} is wanted{note}"


def _part(missed_by: float) -> str:
    return f"{missed_by:.0%}" if missed_by >= 0.01 else "less than 1%"


def sections(results: Results) -> Iterable[tuple[str, list[Row]]]:
    """Each section's name and rows, the first of which is a heading."""
    for name in TITLES:
        if section := results.sections.get(name):
            lines = [
                (target, shape, figures)
                for target, shapes in section.items()
                for shape, figures in shapes.items()
            ]
            shown = [key for key in _COLUMNS if any(key in figures for *_, figures in lines)]
            heading: Row = ("", "", *(_COLUMNS[key][0] for key in shown))
            yield (
                name,
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
