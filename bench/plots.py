"""A bar chart as SVG: rows of bars with their figures, in groups."""

from __future__ import annotations

from collections.abc import Mapping
from xml.sax.saxutils import escape

from results import Results

_WIDTH, _LEFT, _RIGHT, _BAR, _GAP = 760, 240, 90, 18, 6
"""Pixels: the whole, its margins for names and figures, and the bars."""
_COLOURS = ("#2f6f8f", "#8fb8c9", "#c9a227")


def plot(results: Results) -> str:
    """What paths and peers answer a second, over 16 connections."""
    charts = {
        title: {
            target: shapes["16 connections"]["rate"]
            for target, shapes in results.sections.get(section, {}).items()
            if "16 connections" in shapes
        }
        for section, title in _SECTIONS.items()
    }
    return bars({title: figures for title, figures in charts.items() if figures})


_SECTIONS = {
    "paths": "Paths and floors, HTTP: requests a second over 16 connections",
    "paths, TLS": "Paths and floors, TLS: requests a second over 16 connections",
    "peers": "Peers on the same work, TLS: requests a second over 16 connections",
}


def bars(charts: Mapping[str, Mapping[str, float]]) -> str:
    """Charts one below the other, each with a scale of its own."""
    shapes: list[str] = []
    top = 0 if charts else _BAR
    for colour, (title, figures) in enumerate(charts.items()):
        top += _BAR + _GAP
        shapes.append(_text(8, top, title, weight="bold"))
        highest = max(figures.values())
        for name, figure in figures.items():
            top += _BAR + _GAP
            length = (_WIDTH - _LEFT - _RIGHT) * figure / highest
            shapes += [
                _text(_LEFT - 8, top, name, anchor="end"),
                _bar(top, length, _COLOURS[colour % len(_COLOURS)]),
                _text(_LEFT + length + 6, top, f"{figure:,.0f}"),
            ]
        top += _BAR
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" role="img" '
        'font-family="sans-serif" font-size="13">\n'
        f'<rect width="{_WIDTH}" height="{top}" fill="#ffffff"/>\n' + "\n".join(shapes) + "\n</svg>\n"
    )


def _text(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}" font-weight="{weight}">{escape(text)}</text>'


def _bar(y: float, length: float, colour: str) -> str:
    return f'<rect x="{_LEFT}" y="{y - _BAR + 4}" width="{length:.1f}" height="{_BAR}" fill="{colour}"/>'
