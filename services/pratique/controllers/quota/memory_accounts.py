"""The accounts of a ledger in memory, without a database: what ``pratique review`` charges.

They behave as those of :mod:`pratique.controllers.quota.sql_accounts` in a database of one service. The ledger has one
thread for them, so nothing is locked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from pratique.cluster.store import Cluster
from pratique.controllers.quota import ledger
from pratique.controllers.quota.ledger import Account, AccountKey, Charge, Decide, LedgerState, Usage
from pratique.controllers.quota.ledger_observations import UsageCount, has_arrived, was_removed


class MemoryAccounts(msgspec.Struct):
    """The accounts in memory."""

    files: None = None
    """Memory has no files to check."""
    _used: dict[AccountKey, str] = msgspec.field(default_factory=dict)
    """Usage as :func:`pratique.controllers.quota.ledger.encode_usage` writes it: canonical quantities."""
    _charges: dict[int, tuple[AccountKey, Charge, str]] = msgspec.field(default_factory=dict)
    """The charges whose objects may not have arrived yet, with their amounts, by number."""
    _last_number: int = 0
    _turn: int = 0
    _settled: int = 0

    def read(self, accounts: Sequence[Account]) -> dict[AccountKey, Usage]:
        """The usage of the known accounts."""
        keys = [account.key for account in accounts if account.key in self._used]
        return {key: ledger.decode_usage(self._used[key]) for key in keys}

    def read_all(self) -> dict[AccountKey, Usage]:
        """The usage of every account."""
        return {key: ledger.decode_usage(self._used[key]) for key in sorted(self._used)}

    def create(self, accounts: Iterable[Account]) -> None:
        """Create accounts with their initial usage."""
        for account in accounts:
            if account.key not in self._used:
                self._used[account.key] = ledger.encode_usage(account.initial_usage())

    def charge(
        self,
        accounts: Sequence[Account],
        charge: Charge,
        decide: Decide,
        is_wanted: Callable[[], bool],
    ) -> bool:
        """Charge all accounts or none.

        Args:
            accounts: What to charge.
            charge: What the charge is for.
            decide: Computes the new usage.
            is_wanted: Asked before anything is written; False if the caller has given up.

        Returns:
            False if an account is unknown; then nothing was done.

        Raises:
            RefusalError: ``decide`` refused; nothing is written.
        """
        used = self.read(accounts)
        if any(account.key not in used for account in accounts):
            return False
        before = [used[account.key] for account in accounts]
        after = decide(before)
        if is_wanted():
            for account, old, new in zip(accounts, before, after, strict=True):
                if new is not None:
                    self._used[account.key] = ledger.encode_usage(new)
                    self._last_number += 1
                    more = ledger.encode_usage(ledger.increases(old, new))
                    self._charges[self._last_number] = account.key, charge, more
        return True

    def is_charged(self, charge: Charge) -> bool:
        """Whether a request was charged already, as far as the ledger remembers."""
        wanted = _identity_of(charge)
        return any(_identity_of(known) == wanted for _, known, _ in self._charges.values())

    def read_state(self, turn: int | None, *, always: bool) -> LedgerState:
        """Read the ledger's progress, and take the turn to reconcile: no other service takes it."""
        keys: list[AccountKey] | None = None
        if always or self._turn == turn:
            self._turn += 1
            keys = list(self._used)
        return LedgerState(self._turn, max(self._charges, default=self._settled), self._settled, keys)

    def reconcile(
        self, cluster: Cluster, horizon: int, arrived: set[int], counts: Iterable[UsageCount]
    ) -> None:
        """Set the accounts to what the state of a cluster says, and drop the charges up to the horizon."""
        for count in counts:
            key = (count.namespace, count.name, count.uid)
            if key in self._used:
                self._reconcile_account(cluster, horizon, arrived, key, count.used)
        self._settled = max(self._settled, horizon)
        self._charges = {number: kept for number, kept in self._charges.items() if number > horizon}
        arrived.intersection_update(self._charges)

    def _reconcile_account(
        self, cluster: Cluster, horizon: int, arrived: set[int], key: AccountKey, counted: Usage | None
    ) -> None:
        recent = {
            number: (charge, amounts)
            for number, (account, charge, amounts) in self._charges.items()
            if account == key and number > horizon
        }
        if counted is None:
            # a quota with recent charges is about to be seen
            if not recent:
                del self._used[key]
            return
        pending: list[Usage] = []
        for number, (charge, amounts) in recent.items():
            if has_arrived(cluster, charge):
                if charge.uid:  # otherwise it may be an earlier object of the same name
                    arrived.add(number)
            elif number in arrived and was_removed(cluster, charge):
                del self._charges[number]
            else:
                pending.append(ledger.decode_usage(amounts))
        self._used[key] = ledger.encode_usage(ledger.sum_usage([counted, *pending]))

    def close(self) -> None:
        """Hold nothing open."""


def _identity_of(charge: Charge) -> tuple[str, ...]:
    """What tells a retry of a charge from another charge."""
    return charge.namespace, charge.request_uid, charge.group, charge.resource, charge.name, charge.uid
