"""Where an error came from, told without its text, which can hold parts of admission objects."""

from __future__ import annotations

import traceback

_MOST_PLACES = 12
"""Innermost places told: enough for a controller and what it calls, also where it recurses endlessly."""


def described(error: BaseException) -> str:
    """Name an error, and those that led to it, by type and place alone, the innermost place first.

    For example ``KeyError < look_up (acme/policy.py:7) < judge (acme/policy.py:3)``.
    """
    told: list[str] = []
    current: BaseException | None = error
    while current is not None and len(told) < _MOST_PLACES:
        told.append(_one(current))
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return "; because of ".join(told)


def _one(error: BaseException) -> str:
    # Source lines are not looked up: they could hold literals, and reading files would block.
    frames = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__), lookup_lines=False)
    places = [f"{frame.name} ({_short(frame.filename)}:{frame.lineno})" for frame in frames[-_MOST_PLACES:]]
    return " < ".join([type(error).__name__, *reversed(places)])


def _short(filename: str) -> str:
    return "/".join(filename.rsplit("/", 2)[-2:])
