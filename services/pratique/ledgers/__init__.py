"""Ledgers: where charges against ResourceQuotas are kept, in SQLite or PostgreSQL, shared by several validators."""

from __future__ import annotations

from pratique.ledgers.opening import open_ledger
from pratique.ledgers.protocols import Account, Charge, Decide, Key, Ledger, Usage, UsageOf
from pratique.ledgers.reconciling import reconcile_every

__all__ = [
    "Account",
    "Charge",
    "Decide",
    "Key",
    "Ledger",
    "Usage",
    "UsageOf",
    "open_ledger",
    "reconcile_every",
]
