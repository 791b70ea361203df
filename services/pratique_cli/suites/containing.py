"""Containing: which parts of an object are not as a part of it that was expected says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.differences import identical
from pratique.json_values import encode, json_type
from pratique_cli.outputs.changes import path_text
from pratique_cli.suites.results import Mismatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.field_errors import Step
    from pratique.json_values import JSON

    Path = tuple[Step, ...]

_SHOWN = 200
"""Characters of a value that are shown; what is longer is better looked at in the file."""


def missing_parts(
    expected: JSON, got: JSON, path: Path, *, hidden: bool = False, inside: Path = ()
) -> Iterator[Mismatch]:
    """Find where ``got`` does not contain ``expected``.

    Of a mapping, the members given must be there, and contain what is given; a list must have as many elements as the
    one given, and each must contain the one in its place; anything else must be equal. ``path`` is where ``expected``
    stands in the suite, ``inside`` where in the object; values of ``hidden`` objects are not shown.
    """
    if isinstance(expected, dict) and isinstance(got, dict):
        for name, value in expected.items():
            place, further = (*path, name), (*inside, name)
            if name in got:
                yield from missing_parts(value, got[name], place, hidden=hidden, inside=further)
            else:
                yield Mismatch(place, f"{path_text(further)} {_shown(value, hidden=hidden)}", "nothing there")
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for index, value in enumerate(expected):
            place, further = (*path, index), (*inside, index)
            yield from missing_parts(value, got[index], place, hidden=hidden, inside=further)
    elif not identical(expected, got):
        yield Mismatch(
            path, f"{path_text(inside)} {_told(expected, got, hidden=hidden)}", _shown(got, hidden=hidden)
        )


def _told(expected: JSON, got: JSON, *, hidden: bool) -> str:
    if isinstance(expected, list) and isinstance(got, list):
        return f"to be a list of {len(expected)}, not of {len(got)}"
    return _shown(expected, hidden=hidden)


def _shown(value: JSON, *, hidden: bool) -> str:
    if hidden:
        return f"({json_type(value)} that is not shown)"
    text = encode(value).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
