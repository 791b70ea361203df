"""Coverage tables: how often each policy, validation, binding and webhook was used, and which never."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique_cli.palettes import printable
from pratique_cli.suites.coverages import VALIDATION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique_cli.palettes import Palette
    from pratique_cli.suites.coverages import Coverage, Entry

_COLUMNS = ("matched", "denied", "mutated", "warned", "audited")


def coverage_lines(coverage: Coverage, palette: Palette) -> Iterator[str]:
    """Write a table, and below it what was never used."""
    entries = coverage.entries
    columns = [name for name in _COLUMNS if name == "matched" or any(getattr(each, name) for each in entries)]
    names = [printable(_name(each)) for each in entries]
    figures = sum(len(name) + 2 for name in columns)
    width = min(max(map(len, names)), max(palette.width - figures, 20))
    head = "coverage".ljust(width) + "".join(f"  {name}" for name in columns)
    yield palette.paint(head, "bold")
    for entry, name in zip(entries, names, strict=True):
        cells = "".join(f"  {getattr(entry, column) or '':>{len(column)}}" for column in columns)
        yield f"{palette.cut(name, width).ljust(width)}{_coloured(entry, cells, palette)}".rstrip()
    yield from _unused("never matched", [each for each in entries if not each.matched], palette)
    idle = [each for each in entries if each.matched and not each.acted]
    yield from _unused("matched, but never did anything", idle, palette)
    acted = sum(each.acted > 0 for each in entries)
    yield f"{acted} of {len(entries)} did something ({coverage.percent:.1f} %)"


def _name(entry: Entry) -> str:
    if entry.kind == VALIDATION:
        index = entry.name.rpartition(" ")[2]
        return f"  {index} {entry.expression}"
    return f"{entry.kind} {entry.name}"


def _coloured(entry: Entry, cells: str, palette: Palette) -> str:
    return cells if entry.acted else palette.paint(cells, "yellow")


def _unused(what: str, entries: list[Entry], palette: Palette) -> Iterator[str]:
    if not entries:
        return
    yield palette.paint(f"{what}:", "yellow")
    for entry in entries:
        where = "" if entry.source is None else f"  ({entry.source.file}:{entry.line})"
        yield printable(f"  {entry.kind} {entry.name}{where}")
