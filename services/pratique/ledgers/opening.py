"""Opening a ledger by its URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pratique.ledgers.protocols import Ledger


def open_ledger(url: str) -> Ledger:
    """Make a ledger. It connects, and makes its tables, when it is first used.

    Args:
        url: Empty for SQLite in memory; a path or ``sqlite:///path`` for a SQLite file; ``postgresql://…``.

    Raises:
        ConfigurationError: the URL cannot be used; the text says what would be right, and shows no password.
    """
    from pratique.ledgers.sql_ledgers import SQLLedger  # noqa: PLC0415 - it threads and queues; few services charge

    return SQLLedger(url)
