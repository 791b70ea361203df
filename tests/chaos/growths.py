"""Growth: how much more a process may hold at the end of a run."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence

from chaos.histories import Counted

MORE_DESCRIPTORS = 16
"""Connections for everything that a client has open at once, and for those being replaced."""
MORE_THREADS = 12
"""A pool makes its threads when they are first needed: asyncio's has six on two processors, gRPC's as many."""
MORE_TASKS = 8
"""One or two for each connection."""
MORE_CHILDREN = 1
"""That which reads large texts comes with the first of them."""
MORE_KIB = 48 * 1024
"""Memory for caches and the allocator, which were empty at first."""


def survivors(counts: Sequence[Counted]) -> Iterator[tuple[Counted, Counted]]:
    """The first and the last count of each process that was counted twice."""
    by_pid: dict[int, list[Counted]] = collections.defaultdict(list)
    for count in counts:
        by_pid[count.pid].append(count)
    return ((item[0], item[-1]) for item in by_pid.values() if len(item) > 1)


def growth(first: Counted, last: Counted) -> Iterator[str]:
    """Return what has grown too much between two counts of a process."""
    for what, before, after, more in (
        ("descriptors", first.descriptors, last.descriptors, MORE_DESCRIPTORS),
        ("threads", first.threads, last.threads, MORE_THREADS),
        ("tasks", first.tasks, last.tasks, MORE_TASKS),
        ("children", first.children, last.children, MORE_CHILDREN),
        ("KiB", first.resident_kib, last.resident_kib, MORE_KIB),
    ):
        if after > before + more:
            yield f"{first.node} had {before} {what}, and then {after}"
