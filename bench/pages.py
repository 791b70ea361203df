"""The figures in docs/performance.md: everything between two marks is generated from the results."""

from __future__ import annotations

import re

import curves
import tables
from measures import HERE
from results import Circumstances, Results

PAGE = HERE.parent / "docs" / "performance.md"
_MARKED = re.compile(r"(<!-- figures -->\n).*?(<!-- end of figures -->)", re.DOTALL)


def figures(results: Results) -> str:
    """What the page shows of the results, in Markdown."""
    usual = results.usual_circumstances()
    parts = [_told(usual), "### Goals", tables.as_markdown(tables.goals(results))]
    parts += [f"Not measured, {name}: {why}." for name, why in results.left_out.items()]
    drawn = curves.drawings(results)
    for name, rows in tables.sections(results):
        parts.append(f"### {tables.TITLES[name]}")
        if results.measured[name] != usual:
            parts.append(_told(results.measured[name]))
        if name in drawn:
            parts.append(f"![{curves.caption(name)}]({curves.FOLDER.name}/{curves.file_name(name)})")
        parts.append(tables.as_markdown(rows))
    return "\n\n".join(parts) + "\n"


def _told(measured: Circumstances) -> str:
    if not measured:
        return "Not measured yet: run `make bench ARGS='--peers --long --commit'` on a quiet machine."
    busy = f", load average before it {measured['load']:g}" if "load" in measured else ""
    return (
        f"Measured {measured['at']} on {measured['cores']} cores ({measured['processor']}{busy}), "
        f"Python {measured['python']}: medians of {measured['rounds']} rounds of {measured['seconds']:g} s each."
    )


def with_figures(page: str, results: Results) -> str:
    """The page with the figures of these results."""
    return _MARKED.sub(lambda found: f"{found[1]}\n{figures(results)}\n{found[2]}", page)
