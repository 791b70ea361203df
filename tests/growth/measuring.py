"""How the CPU time of work grows with its size, and which function takes it where that is more than linear."""

from __future__ import annotations

import cProfile
import gc
import itertools
import pstats
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

SIZES = (4 * 1024, 16 * 1024, 64 * 1024)
"""Bytes of JSON from which growth is measured: to four times as much, and, where that takes too long, to 16 times. The
first ones are for what takes minutes for the last one."""
_STEP = 4
_SLOW_SECONDS = 0.1
"""Where the first size takes longer, as where each item is an expression that is compiled, all sizes are a
fourth, or a sixteenth."""
_TOLERANCE = 2.0
"""Growth by this factor more than the size may be noise, caches and allocation; work of twice the exponent grows four
times more than its size at each step."""
_NOTHING_SECONDS = 0.005
"""What the large size takes at least. A quadratic function that takes less takes less than a second for the largest
object that an API server accepts."""
_REPEATS = 3
_NAMED = 3


_numbers = itertools.count(1_000_000, 150_000)


def fresh_number() -> int:
    """The number from which what is made for one run counts its items.

    No two runs have the same texts: what a cache has kept of a small size would make a large one look slow.
    """
    return next(_numbers)


class Clock:
    """Adds up the CPU time of pieces of work, by their names."""

    def __init__(self, profile: cProfile.Profile | None = None, profiled: str = "") -> None:
        """With a ``profile``, fill it with the calls of the piece that is named ``profiled``."""
        self.seconds: dict[str, float] = defaultdict(float)
        self._profile, self._profiled = profile, profiled

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Count what is done within for a piece."""
        profile = self._profile if name == self._profiled else None
        began = time.process_time()
        if profile is not None:
            profile.enable()
        try:
            yield
        finally:
            if profile is not None:
                profile.disable()
            self.seconds[name] += time.process_time() - began


Work: TypeAlias = Callable[[int, Clock], None]
"""Does the work on something of a size, in pieces that it tells the clock of."""


class Growth(NamedTuple):
    """A piece of work that grows faster than its size."""

    piece: str
    seconds: tuple[float, ...]
    """Its CPU time at each of the sizes."""
    sizes: tuple[int, ...]
    functions: str
    """The functions that took most of it, the worst first."""

    def __str__(self) -> str:
        times = ", ".join(
            f"{seconds:.3f} s at {size // 1024} KiB"
            for seconds, size in zip(self.seconds, self.sizes, strict=True)
        )
        return f"{self.piece}: {times}: {self.functions}"


def superlinear(work: Work) -> list[Growth]:
    """Find the pieces of work that grow faster than its size. None is found by accident.

    A piece that takes too long at the second of three sizes is measured again at both, as often as it still does, and
    then at the third one: its least times count, so that what else the machine does cannot make one grow.
    """
    divisor = _divisor(work)
    for first in SIZES:
        sizes = tuple(first * _STEP**power // divisor for power in range(3))
        if found := _grown(work, sizes):
            return found
    return []


def _grown(work: Work, sizes: tuple[int, ...]) -> list[Growth]:
    small, large = _seconds(work, sizes[0]), _seconds(work, sizes[1])
    for _ in range(_REPEATS - 1):
        if not _too_long(small, large):
            return []
        small, large = _least(small, _seconds(work, sizes[0])), _least(large, _seconds(work, sizes[1]))
    suspects = _too_long(small, large)
    if not suspects:
        return []
    largest = _seconds(work, sizes[2])
    if suspects & _too_long(large, largest):
        largest = _least(largest, _seconds(work, sizes[2]))
    return [
        Growth(
            piece,
            (small[piece], large[piece], largest[piece]),
            sizes,
            slowest_functions(work, piece, sizes[1]),
        )
        for piece in sorted(suspects & _too_long(large, largest))
    ]


def _divisor(work: Work) -> int:
    work(SIZES[0], Clock())  # imports, and fills caches
    seconds = sum(_seconds(work, SIZES[0]).values())
    return int(_STEP ** sum(seconds > limit for limit in (_SLOW_SECONDS, _STEP * _SLOW_SECONDS)))


def _seconds(work: Work, size: int) -> Mapping[str, float]:
    clock = Clock()
    gc.collect()
    gc.disable()  # collections come by the number of objects, and take longer the more there are
    try:
        work(size, clock)
    finally:
        gc.enable()
    return clock.seconds


def _least(first: Mapping[str, float], second: Mapping[str, float]) -> Mapping[str, float]:
    return {piece: min(seconds, second.get(piece, seconds)) for piece, seconds in first.items()}


def _too_long(smaller: Mapping[str, float], larger: Mapping[str, float]) -> set[str]:
    limit = _TOLERANCE * _STEP
    return {
        piece
        for piece, seconds in larger.items()
        if seconds > max(_NOTHING_SECONDS, limit * smaller.get(piece, 0.0))
    }


def slowest_functions(work: Work, piece: str, size: int) -> str:
    """Name the functions that a piece of work is slow by, each with its share of the time."""
    profile = cProfile.Profile()
    work(size, Clock(profile, piece))
    rows = pstats.Stats(profile).stats.items()  # type: ignore[attr-defined]  # typeshed leaves it out
    total = sum(row[2] for _, row in rows) or 1.0
    slowest = sorted(rows, key=lambda item: item[1][2], reverse=True)[:_NAMED]
    return "; ".join(_named(place, row, total) for place, row in slowest)


def _named(
    place: tuple[str, int, str],
    row: tuple[int, int, float, float, dict[tuple[str, int, str], object]],
    total: float,
) -> str:
    file, line, name = place
    where = f" ({'/'.join(file.rsplit('/', 3)[1:])}:{line})" if line else ""
    callers = "" if line else " of " + ", ".join(sorted({caller[2] for caller in row[4]})[:2])
    return f"{row[2] / total:.0%} in {name}{where}{callers}"
