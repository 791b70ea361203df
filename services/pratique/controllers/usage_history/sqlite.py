"""Usage histories in SQLite: a file with one table. A collector writes the samples; Pratique only reads them."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from pathlib import Path

import msgspec

from pratique.controllers.usage_history import (
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
"""Creates such a file. Time is in seconds since 1970, UTC; CPU in millicores, memory in bytes."""

_LOCKED_SECONDS = 0.5
"""How long to wait for a writer. Writing a sample takes a few milliseconds."""

_STEPS_BETWEEN_CHECKS = 10_000
"""How many SQLite instructions run between two checks for cancellation: about a tenth of a millisecond."""

# Tags and digests start with ":" or "@", which sort before "A", so the index can find the range.
_ANY_TAG = (
    "image >= :image AND image < :image || 'A'"
    " AND (image = :image OR substr(image, length(:image) + 1, 1) IN (':', '@'))"
)


def _statement(query: UsageQuery) -> str:
    """Find the sample at the percentile by its rank: the smallest that this percentage of samples do not exceed."""
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


class SqliteHistory(msgspec.Struct, frozen=True):
    """A history in a file. It is opened for each query, because it may be replaced at any time."""

    path: Path

    async def usage(self, query: UsageQuery) -> Usage:
        """Find a percentile; see :class:`pratique.controllers.usage_history.UsageHistory`."""
        abandoned = threading.Event()
        try:
            return await asyncio.to_thread(self._read, query, abandoned)
        finally:
            abandoned.set()

    async def close(self) -> None:
        """Do nothing: no file is open."""

    def _read(self, query: UsageQuery, abandoned: threading.Event) -> Usage:
        if not self.path.exists():
            raise UsageHistoryError("the file does not exist")
        try:
            return self._select(query, abandoned)
        except sqlite3.Error as error:
            # SQLite's texts quote at most the statement, which contains only column names.
            raise UsageHistoryError(f"SQLite: {error}") from None

    def _select(self, query: UsageQuery, abandoned: threading.Event) -> Usage:
        address = f"{self.path.absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, timeout=_LOCKED_SECONDS, uri=True)) as connection:
            connection.set_progress_handler(abandoned.is_set, _STEPS_BETWEEN_CHECKS)
            row = connection.execute(_statement(query), msgspec.structs.asdict(query)).fetchone()
        if row is None:
            return NO_SAMPLES
        amount, samples = row
        if not isinstance(amount, int | float):
            raise UsageHistoryError("a usage in the table is not a number")
        return Usage(round_up_amount(amount), samples)


def open_history(source: str) -> SqliteHistory:
    """Open a file. It need not exist yet."""
    return SqliteHistory(Path(source))
