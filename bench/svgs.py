"""Parts of SVG that bars and curves share: a page with a ground of its own, which is dark where its reader's is."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

_STYLE = """
text { fill: #1f2328 } .faint { fill: #59636e } .ground { fill: #ffffff } .grid { stroke: #d1d9e0 }
.c0 { fill: #1f6f94; stroke: #1f6f94 } .c1 { fill: #b7560f; stroke: #b7560f } .c2 { fill: #3f7d32; stroke: #3f7d32 }
.c3 { fill: #8a4fa3; stroke: #8a4fa3 } .c4 { fill: #8c6d00; stroke: #8c6d00 } .c5 { fill: #b03a48; stroke: #b03a48 }
.c6 { fill: #5f6b76; stroke: #5f6b76 } .line { fill: none; stroke-width: 2 } .bar { stroke: none }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .faint { fill: #9198a1 } .ground { fill: #0d1117 } .grid { stroke: #3d444d }
.c0 { fill: #58a6d6; stroke: #58a6d6 } .c1 { fill: #f0883e; stroke: #f0883e } .c2 { fill: #7cc36a; stroke: #7cc36a }
.c3 { fill: #c99be0; stroke: #c99be0 } .c4 { fill: #d9b93b; stroke: #d9b93b } .c5 { fill: #ff8a94; stroke: #ff8a94 }
.c6 { fill: #a9b4bf; stroke: #a9b4bf } .line { fill: none }
}
"""
"""Colours of a contrast of 4.5 and more to their ground, light and dark."""
COLOURS = 7


def page(width: int, height: int, title: str, shapes: Sequence[str]) -> str:
    """A whole document; its title is what a screen reader says."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'font-family="sans-serif" font-size="13">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n"
        f'<rect class="ground" width="{width}" height="{height}"/>\n' + "\n".join(shapes) + "\n</svg>\n"
    )


def text(
    x: float, y: float, words: str, *, anchor: str = "start", weight: str = "normal", kind: str = ""
) -> str:
    """Words that begin, end or have their middle at a point."""
    faint = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}"{faint}>{escape(words)}</text>'


def line(points: Sequence[tuple[float, float]], kind: str) -> str:
    """A line through points, each of which is marked."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    marks = "".join(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points)
    return f'<polyline class="{kind} line" points="{path}"/>{marks}'


def rule(x1: float, y1: float, x2: float, y2: float) -> str:
    """A line of a grid."""
    return f'<line class="grid" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def bar(x: float, y: float, length: float, height: float, kind: str) -> str:
    """A bar to the right."""
    return f'<rect class="{kind} bar" x="{x}" y="{y}" width="{length:.1f}" height="{height}"/>'
