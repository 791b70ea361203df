"""The figures in docs/performance.md: everything between two marks is generated from the results."""

from __future__ import annotations

import re

import tables
from measures import HERE
from results import Results

PAGE = HERE.parent / "docs" / "performance.md"
_MARKED = re.compile(r"(<!-- figures -->\n).*?(<!-- end of figures -->)", re.DOTALL)


def figures(results: Results) -> str:
    """What the page shows of the results, in Markdown."""
    parts = [_circumstances(results), "### Goals", tables.as_markdown(tables.goals(results))]
    for title, rows in tables.sections(results):
        parts += [f"### {title}", tables.as_markdown(rows)]
    parts += [f"Left out, {name}: {why}." for name, why in results.left_out.items()]
    return "\n\n".join(parts) + "\n"


def _circumstances(results: Results) -> str:
    measured = results.measured
    if not measured:
        return "Not measured yet: run `make bench ARGS='--peers --long --commit'` on a quiet machine."
    return (
        f"Measured {measured['at']} on {measured['cores']} cores ({measured['processor']}), "
        f"Python {measured['python']}: medians of {measured['rounds']} rounds of {measured['seconds']:g} s each."
    )


def with_figures(page: str, results: Results) -> str:
    """The page with the figures of these results."""
    return _MARKED.sub(lambda found: f"{found[1]}\n{figures(results)}\n{found[2]}", page)
