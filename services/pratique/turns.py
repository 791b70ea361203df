"""Turns: how long one thread of a service keeps the others waiting."""

from __future__ import annotations

import sys

SWITCH_SECONDS = 0.0005
"""How long a thread that looks at a large review keeps the event loop waiting each time it is its turn. Half a
millisecond: with Python's 5 the reviews beside it took 5 ms longer for each turn of the loop that they need, and they
need several. It is less than what the longest single call takes, so that a shorter one would gain little."""


def take_short_turns() -> None:
    """Have the threads of this process take turns as often as suits an event loop among them."""
    sys.setswitchinterval(SWITCH_SECONDS)
