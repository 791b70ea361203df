"""Usage samples: SQLite files with histories in them."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from pratique.controllers.usage_history.sqlite import SCHEMA

Sample: TypeAlias = tuple[int, str, str, str, object]
"""Time, namespace, image, resource, usage."""

NOW = 2_000_000_000
"""The time in tests: seconds since 1970."""

DAY = 86_400


def write_samples(path: Path, *groups: Iterable[Sample]) -> Path:
    """Make a file of samples, or put more into it."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
        for group in groups:
            connection.executemany("INSERT INTO samples VALUES (?, ?, ?, ?, ?)", group)
        connection.commit()
    return path


def samples(
    image: str, *usages: float, days_ago: float = 1, namespace: str = "shop", resource: str = "cpu"
) -> list[Sample]:
    """One sample for each usage, all of the same time."""
    return [(round(NOW - days_ago * DAY), namespace, image, resource, usage) for usage in usages]


def many(
    image: str = "web:v1",
    usage: float = 100,
    count: int = 30,
    *,
    days_ago: float = 1,
    namespace: str = "shop",
    resource: str = "cpu",
) -> list[Sample]:
    """So many samples of one usage."""
    return samples(image, *[usage] * count, days_ago=days_ago, namespace=namespace, resource=resource)
