"""Reconciliation: usage is put right every so often, as Kubernetes' quota controller does."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from pratique.errors import CallError

if TYPE_CHECKING:
    from pratique.clusters import Cluster
    from pratique.ledgers.protocols import Ledger, UsageOf

_log = logging.getLogger(__name__)


async def reconcile_every(ledger: Ledger, cluster: Cluster, period_seconds: float, usage_of: UsageOf) -> None:
    """Reconcile a ledger with a cluster until cancelled, for the first time when one period has passed.

    Where storage cannot be asked, that is logged, and the next period tries again.
    """
    while True:
        await asyncio.sleep(period_seconds)
        try:
            await ledger.reconcile(cluster, period_seconds, usage_of)
        except CallError as error:
            _log.warning("quotas were not reconciled", extra={"reason": str(error)})
