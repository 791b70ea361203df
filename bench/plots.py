"""A bar chart: what paths and peers answer a second, in groups, with the CPU time of each beside its rate."""

from __future__ import annotations

from collections.abc import Mapping

import svgs
from measures import Figures
from paths import TCP_FRAMES, UNIX_FRAMES
from results import Results

_WIDTH, _LEFT, _RIGHT, _BAR, _GAP = 760, 240, 130, 18, 6
"""Pixels: the whole, its margins for names and figures, and the bars."""
_TITLE = "Requests a second over 16 connections, and CPU time a request"


def plot(results: Results) -> str:
    """What paths and peers answer a second, over 16 connections."""
    charts = {
        title: {
            target: shapes["16 connections"]
            for target, shapes in results.sections.get(section, {}).items()
            if "16 connections" in shapes and target not in _NO_SERVERS
        }
        for section, title in _SECTIONS.items()
    }
    return bars({title: figures for title, figures in charts.items() if figures})


_SECTIONS = {
    "paths": "Paths and floors, HTTP: requests a second over 16 connections, CPU a request",
    "paths, TLS": "Paths and floors, TLS: requests a second over 16 connections, CPU a request",
    "peers": "Peers on the same work, TLS: requests a second over 16 connections, CPU a request",
}


_NO_SERVERS = {TCP_FRAMES, UNIX_FRAMES}
"""Floors that answer so many times as often that nothing else could be told apart beside them."""


def bars(charts: Mapping[str, Mapping[str, Figures]]) -> str:
    """Charts one below the other, each with a scale of its own."""
    shapes: list[str] = []
    top = 0 if charts else _BAR
    for colour, (title, targets) in enumerate(charts.items()):
        top += _BAR + _GAP
        shapes.append(svgs.text(8, top, title, weight="bold"))
        highest = max(figures["rate"] for figures in targets.values())
        for name, figures in targets.items():
            top += _BAR + _GAP
            length = (_WIDTH - _LEFT - _RIGHT) * figures["rate"] / highest
            shapes += [
                svgs.text(_LEFT - 8, top, name, anchor="end"),
                svgs.bar(_LEFT, top - _BAR + 4, length, _BAR, f"c{colour % svgs.COLOURS}"),
                svgs.text(_LEFT + length + 6, top, f"{figures['rate']:,.0f}, {figures['cpu'] * 1e6:,.0f} µs"),
            ]
        top += _BAR
    return svgs.page(_WIDTH, top, _TITLE, shapes)
