"""Usage histories in SQLite: a file with one table, which whoever gathers samples fills and this only reads."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import sqlite3
import threading
from pathlib import Path

from pratique.controllers.usage_history.histories import (
    NO_SAMPLES,
    Usage,
    UsageHistoryError,
    UsageQuery,
    round_up_amount,
)

SCHEMA = """
CREATE TABLE IF NOT EXISTS samples (
  time      INTEGER NOT NULL,
  namespace TEXT    NOT NULL,
  image     TEXT    NOT NULL,
  resource  TEXT    NOT NULL,
  usage     REAL    NOT NULL
);
CREATE INDEX IF NOT EXISTS samples_of_an_image ON samples (resource, image, time, namespace, usage);
"""
"""What makes such a file. Time is in seconds since 1970, UTC; cpu in millicores, memory in bytes."""

_LOCKED_SECONDS = 0.5
"""How long a writer is waited for. One sample is written in a few milliseconds."""

_STEPS_BETWEEN_CHECKS = 10_000
"""Instructions of SQLite between two looks whether somebody still waits: about a tenth of a millisecond."""

# What goes on with a tag or a digest comes before whatever goes on with "A", which follows "@"; that the index knows.
_ANY_TAG = (
    "image >= :image AND image < :image || 'A'"
    " AND (image = :image OR substr(image, length(:image) + 1, 1) IN (':', '@'))"
)


def _statement(query: UsageQuery) -> str:
    """Take the sample at the percentile by its rank: the smallest that so many in a hundred are not above."""
    where = [
        "resource = :resource",
        _ANY_TAG if query.any_tag else "image = :image",
        "time > :start AND time <= :end",
        *(["namespace = :namespace"] if query.namespace else []),
    ]
    return (
        f"WITH found AS MATERIALIZED (SELECT usage FROM samples WHERE {' AND '.join(where)})"  # noqa: S608 - constants alone
        " SELECT usage, (SELECT count(*) FROM found) FROM found ORDER BY usage"
        " LIMIT 1 OFFSET (SELECT (count(*) * :percentile + 99) / 100 - 1 FROM found)"
    )


@dataclasses.dataclass(frozen=True, slots=True)
class SqliteHistory:
    """A history in a file, which is opened anew for each question: it may be replaced at any time."""

    path: Path

    async def usage(self, query: UsageQuery) -> Usage:
        """Find a percentile; see :class:`pratique.controllers.usage_history.histories.UsageHistory`."""
        abandoned = threading.Event()
        try:
            return await asyncio.to_thread(self._read, query, abandoned)
        finally:
            abandoned.set()

    async def close(self) -> None:
        """Hold nothing open."""

    def _read(self, query: UsageQuery, abandoned: threading.Event) -> Usage:
        if not self.path.exists():
            raise UsageHistoryError("there is no such file")
        try:
            return self._select(query, abandoned)
        except sqlite3.Error as error:
            # SQLite's texts quote the statement at most, and that holds names of columns alone.
            raise UsageHistoryError(f"SQLite: {error}") from None

    def _select(self, query: UsageQuery, abandoned: threading.Event) -> Usage:
        address = f"{self.path.absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, timeout=_LOCKED_SECONDS, uri=True)) as connection:
            connection.set_progress_handler(abandoned.is_set, _STEPS_BETWEEN_CHECKS)
            found = connection.execute(_statement(query), dataclasses.asdict(query)).fetchone()
        if found is None:
            return NO_SAMPLES
        amount, samples = found
        if not isinstance(amount, int | float):
            raise UsageHistoryError("a usage in the table is no number")
        return Usage(round_up_amount(amount), samples)


def open_history(source: str) -> SqliteHistory:
    """Make the file ready to be read. It need not be there yet."""
    return SqliteHistory(Path(source))
