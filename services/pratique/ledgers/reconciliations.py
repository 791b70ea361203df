"""Reconciling accounts in a database with what a cluster says."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import sqlalchemy as sa

from pratique.ledgers import usages
from pratique.ledgers.charging import write
from pratique.ledgers.counting import has_arrived, was_removed
from pratique.ledgers.integrity import DamageError
from pratique.ledgers.protocols import Charge
from pratique.ledgers.tables import ACCOUNTS, CHARGES, LEDGER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pratique.clusters import Cluster
    from pratique.ledgers.counting import Count
    from pratique.ledgers.databases import Database
    from pratique.ledgers.protocols import Key

_ACCOUNT = sa.tuple_(ACCOUNTS.c.namespace, ACCOUNTS.c.name, ACCOUNTS.c.uid)
_CHARGED = sa.tuple_(CHARGES.c.namespace, CHARGES.c.quota_name, CHARGES.c.quota_uid)


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """Where a ledger has come to."""

    turn: int
    latest: int
    """The number of the last charge."""
    settled: int
    """The number of the last charge that was given up."""
    accounts: Sequence[Key] | None
    """All that there are, for the one service that is to reconcile now; None for the others."""


def look(database: Database, turn: int | None, *, always: bool) -> Look:
    """Look where a ledger has come to, and take the turn to reconcile where nobody has since it was at ``turn``.

    Every service looks once in a period. Who dies in its turn is missed for one period. ``always`` takes the turn in
    any case.

    Raises:
        DamageError: the ledger lacks what each has.
    """
    with database.writer.begin() as connection:
        found = connection.execute(sa.select(LEDGER)).first()
        if found is None or found.identity != database.identity:
            raise DamageError("it is another ledger than before")
        latest = connection.execute(sa.select(sa.func.max(CHARGES.c.number))).scalar() or 0
        accounts, now = None, found.turn
        if always or now == turn:
            taken = sa.update(LEDGER).where(LEDGER.c.turn == now).values(turn=now + 1)
            if connection.execute(taken).rowcount:
                now += 1
                rows = connection.execute(sa.select(ACCOUNTS.c.namespace, ACCOUNTS.c.name, ACCOUNTS.c.uid))
                accounts = [(row.namespace, row.name, row.uid) for row in rows]
    return Look(now, max(latest, found.settled), found.settled, accounts)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """Putting accounts right by one state of the cluster."""

    database: Database
    cluster: Cluster
    """The state."""
    horizon: int
    """The last charge that is older than the state: its object is in it, or will never be."""
    arrived: set[int]
    """Charges whose objects this service has seen in the cluster; what it sees of others is added."""

    def settle(self, counts: Iterable[Count]) -> None:
        """Put accounts right, one by one so that nobody waits for long, and give up what the state has answered.

        What is charged after the cluster was looked at is among the charges when the account's row is locked. Where
        others have given up charges that may be younger than this state, nothing is done: their objects need not be
        in it.
        """
        for one in counts:
            with self.database.writer.begin() as connection:
                self._settle(connection, one)
        with self.database.writer.begin() as connection:
            # locked, so that it never goes back
            if self._is_behind(connection, lock=True):
                return
            connection.execute(sa.update(LEDGER).values(settled=self.horizon))
            connection.execute(sa.delete(CHARGES).where(CHARGES.c.number <= self.horizon))
            left = set(connection.execute(sa.select(CHARGES.c.number)).scalars()) if self.arrived else set()
        self.arrived.intersection_update(left)

    def _is_behind(self, connection: sa.Connection, *, lock: bool = False) -> bool:
        query = sa.select(LEDGER.c.settled)
        settled: int = connection.execute(query.with_for_update() if lock else query).scalar_one()
        return settled > self.horizon

    def _settle(self, connection: sa.Connection, count: Count) -> None:
        key = (count.namespace, count.name, count.uid)
        locked = sa.select(ACCOUNTS.c.used).where(_ACCOUNT.in_([key])).with_for_update()
        stored = connection.execute(locked).scalar()
        young = {} if stored is None else self._charges(connection, key)
        # in this order: who gives charges up says so in the same moment
        if stored is None or self._is_behind(connection):
            return
        if count.used is None:
            # one that is charged is a quota that another service sees
            if not young:
                connection.execute(sa.delete(ACCOUNTS).where(_ACCOUNT.in_([key])))
            return
        on_the_way = [usages.from_text(amounts) for amounts in self._on_the_way(connection, young)]
        used = usages.to_text(usages.total([count.used, *on_the_way]))
        if used != stored:
            write(connection, key, used)

    def _on_the_way(self, connection: sa.Connection, young: dict[int, tuple[Charge, str]]) -> list[str]:
        """The amounts of those charges whose objects are not in the cluster yet; those that have left it go."""
        kept, gone = [], []
        for number, (charge, amounts) in young.items():
            if has_arrived(self.cluster, charge):
                if charge.uid:  # else it may be the predecessor of the same name
                    self.arrived.add(number)
            elif number in self.arrived and was_removed(self.cluster, charge):
                gone.append(number)
            else:
                kept.append(amounts)
        if gone:
            one = sa.delete(CHARGES).where(CHARGES.c.number == sa.bindparam("gone"))
            connection.execute(one, [{"gone": number} for number in gone])
        return kept

    def _charges(self, connection: sa.Connection, key: Key) -> dict[int, tuple[Charge, str]]:
        rows = connection.execute(
            sa.select(CHARGES).where(_CHARGED.in_([key]), CHARGES.c.number > self.horizon)
        )
        return {
            row.number: (
                Charge(
                    group=row.object_group,
                    resource=row.object_resource,
                    namespace=row.namespace,
                    name=row.object_name,
                    uid=row.object_uid,
                    old_resource_version=row.old_resource_version,
                ),
                row.amounts,
            )
            for row in rows
        }
