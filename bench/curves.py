"""Growth as curves: latency, rate and CPU time by policies, validators, connections and size, side by side.

Both scales are logarithmic, because each step is several times the one before: what costs the same for each more of it
is a straight line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import svgs
from measures import HERE, Figures
from paths import CONNECTIONS, GRPC_ECHO, HTTP_ECHO, PATHS, POLICIES, VALIDATORS, counted
from payloads import BYTES
from results import Results

FOLDER = HERE.parent / "docs" / "performance"
GROWING = {
    "paths": "connections",
    "payloads": "bytes of a review",
    "policies": "policies",
    "validators": "validators",
}
"""What grows, of the sections that are drawn."""
Curves = dict[str, list[tuple[float, Figures]]]
"""Points by the name of a curve: how much there is of what grows, and the figures for it."""

_PANELS: tuple[tuple[str, Callable[[Figures], float]], ...] = (
    ("p50 ms", lambda figures: figures["p50"] * 1e3),
    ("reviews a second", lambda figures: figures["rate"]),
    ("CPU µs a review", lambda figures: figures["cpu"] * 1e6),
)
_SHAPES = ("1 connection", "16 connections")
_WIDTH, _PANEL, _HEIGHT, _LEFT, _TOP = 900, 225, 190, 50, 36
"""Pixels: the whole, and each of three panels: what its curves have, and the margins for the scale and the title."""
_LEGEND_ROW = 20


def drawings(results: Results) -> dict[str, str]:
    """The drawings, by section: of each that was measured with all its figures."""
    made = {name: grown(results) for name, grown in _GROWN.items()}
    return {name: draw(GROWING[name], curves) for name, curves in made.items() if any(curves.values())}


def caption(section: str) -> str:
    """What a drawing shows."""
    return f"Latency, rate and CPU time by {GROWING[section]}"


def file_name(section: str) -> str:
    """Of the drawing of a section."""
    return f"{section}.svg"


def write(results: Results, folder: Path = FOLDER) -> None:
    """Write all drawings, and remove those of sections that are not drawn any more."""
    folder.mkdir(exist_ok=True)
    made = {file_name(name): drawing for name, drawing in drawings(results).items()}
    for file in folder.glob("*.svg"):
        if file.name not in made:
            file.unlink()
    for name, drawing in made.items():
        (folder / name).write_text(drawing, "utf-8")


def _by_targets(section: str, names: Mapping[str, float]) -> Callable[[Results], Curves]:
    """Each target is a step of what grows, and each shape a curve."""

    def grown(results: Results) -> Curves:
        found = results.sections.get(section, {})
        return {
            shape: [
                (number, found[name][shape]) for name, number in names.items() if shape in found.get(name, {})
            ]
            for shape in _SHAPES
        }

    return grown


def _by_shapes(
    section: str, names: Mapping[str, float], targets: Iterable[str]
) -> Callable[[Results], Curves]:
    """Each shape is a step of what grows, and each target a curve."""

    def grown(results: Results) -> Curves:
        found = results.sections.get(section, {})
        return {
            target: [(number, found[target][name]) for name, number in names.items() if name in found[target]]
            for target in targets
            if target in found
        }

    return grown


_GROWN = {
    "paths": _by_shapes(
        "paths",
        {counted(number, "connection"): number for number in CONNECTIONS},
        (*PATHS, HTTP_ECHO, GRPC_ECHO),
    ),
    "payloads": _by_shapes("payloads", BYTES, PATHS),
    "policies": _by_targets(
        "policies", {counted(number, "policy", "policies"): number for number in POLICIES}
    ),
    "validators": _by_targets("validators", {counted(number, "validator"): number for number in VALIDATORS}),
}


def draw(what: str, curves: Curves) -> str:
    """Three panels side by side, and below them what grows and a legend."""
    named = {name: points for name, points in curves.items() if points}
    steps = sorted({number for points in named.values() for number, _ in points})
    shapes: list[str] = []
    for place, (heading, figure) in enumerate(_PANELS):
        lines = {
            name: [(number, figure(figures)) for number, figures in points] for name, points in named.items()
        }
        left = place * (_WIDTH // len(_PANELS)) + _LEFT
        shapes += _panel(left, heading, steps, lines)
        shapes.append(svgs.text(left + _PANEL / 2, _TOP + _HEIGHT + 36, what, anchor="middle", kind="faint"))
    below = _TOP + _HEIGHT + 2 * _LEGEND_ROW + 6
    for place, name in enumerate(named):
        x = _LEFT + place * (_WIDTH - _LEFT) // max(4, len(named))
        shapes += [svgs.bar(x, below + 8, 18, 6, f"c{place}"), svgs.text(x + 26, below + 16, name)]
    return svgs.page(_WIDTH, below + 2 * _LEGEND_ROW, f"Latency, rate and CPU time by {what}", shapes)


def _panel(
    left: float, heading: str, steps: Sequence[float], lines: Mapping[str, Sequence[tuple[float, float]]]
) -> list[str]:
    """The curves of one figure, with their scales."""
    ticks = decades([value for points in lines.values() for _, value in points])
    across, up = _scale(steps[0], steps[-1], _PANEL), _scale(ticks[0], ticks[-1], _HEIGHT)
    bottom = _TOP + _HEIGHT
    shapes = [svgs.text(left, _TOP - 14, heading, weight="bold")]
    for tick in ticks:
        y = bottom - up(tick)
        shapes += [
            svgs.rule(left, y, left + _PANEL, y),
            svgs.text(left - 6, y + 4, short(tick), anchor="end", kind="faint"),
        ]
    for step in steps:
        x = left + across(step)
        shapes += [
            svgs.rule(x, bottom, x, bottom + 4),
            svgs.text(x, bottom + 18, short(step), anchor="middle", kind="faint"),
        ]
    for place, points in enumerate(lines.values()):
        placed = [(left + across(number), bottom - up(value)) for number, value in points]
        shapes.append(svgs.line(placed, f"c{place}"))
    return shapes


def _scale(first: float, last: float, pixels: float) -> Callable[[float], float]:
    """Where a value is, logarithmically, between the first and the last."""
    whole = math.log(last / first) or 1.0
    return lambda value: pixels * math.log(value / first) / whole


def decades(values: Sequence[float]) -> list[float]:
    """The marks of a scale that holds all values: 1, 2, 5, 10, … or, for more than three decades, powers of ten."""
    lowest, highest = min(values), max(values)
    exponents = range(math.floor(math.log10(lowest)), math.ceil(math.log10(highest)) + 1)
    steps = (1, 2, 5) if math.log10(highest / lowest) <= 3 else (1,)
    marks = [step * 10.0**exponent for exponent in exponents for step in steps]
    first = max((mark for mark in marks if mark <= lowest), default=marks[0])
    last = min((mark for mark in marks if mark >= highest), default=marks[-1])
    inside = [mark for mark in marks if first <= mark <= last]
    return inside if len(inside) > 1 else [first, 10 * first]


def short(value: float) -> str:
    """A number with as few characters as it takes: 1.5K, 20M, 0.05."""
    for size, letter in ((1e6, "M"), (1e3, "K")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
