"""Reconciling accounts in a database with what a cluster says."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import sqlalchemy as sa

from pratique.ledgers import usages
from pratique.ledgers.charging import write
from pratique.ledgers.counting import has_arrived
from pratique.ledgers.protocols import Charge
from pratique.ledgers.tables import ACCOUNTS, CHARGES, RECONCILIATIONS, now

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pratique.clusters import Cluster
    from pratique.ledgers.charging import Key
    from pratique.ledgers.counting import Count
    from pratique.ledgers.databases import Database

_ACCOUNT = sa.tuple_(ACCOUNTS.c.namespace, ACCOUNTS.c.name, ACCOUNTS.c.uid)
_CHARGED = sa.tuple_(CHARGES.c.namespace, CHARGES.c.quota_name, CHARGES.c.quota_uid)

_DUE = 0.9
"""Share of a period after which it is time again: services sleep by clocks that are not the database's."""


@dataclasses.dataclass(frozen=True, slots=True)
class Claimed:
    """The right to reconcile, which one service has at a time."""

    at_milliseconds: int
    """When it was had, by the database's clock."""
    accounts: Sequence[Key]
    """All that there were then."""


def claim(database: Database, period_seconds: float) -> Claimed | None:
    """Ask to reconcile. None where somebody else did so within the period; who dies doing it is missed for one."""
    due = now() - round(1000 * _DUE * period_seconds)
    with database.writer.begin() as connection:
        claimed = sa.update(RECONCILIATIONS).where(RECONCILIATIONS.c.begun_at <= due).values(begun_at=now())
        if not connection.execute(claimed).rowcount:
            return None
        at = connection.execute(sa.select(RECONCILIATIONS.c.begun_at)).scalar_one()
        rows = connection.execute(sa.select(ACCOUNTS.c.namespace, ACCOUNTS.c.name, ACCOUNTS.c.uid)).all()
    return Claimed(at, [(row.namespace, row.name, row.uid) for row in rows])


def settle(database: Database, cluster: Cluster, counts: Iterable[Count], since_milliseconds: int) -> None:
    """Put accounts right, one by one so that nobody waits for long, and forget charges that were before ``since``.

    What is charged after the cluster was looked at is among the charges when the account's row is locked. Charges are
    forgotten by their age alone: another service may look at an older cluster, which their object is not in.
    """
    for one in counts:
        with database.writer.begin() as connection:
            _settle(connection, cluster, one, since_milliseconds)
    with database.writer.begin() as connection:
        connection.execute(sa.delete(CHARGES).where(CHARGES.c.charged_at < since_milliseconds))


def _settle(connection: sa.Connection, cluster: Cluster, count: Count, since_milliseconds: int) -> None:
    key = (count.namespace, count.name, count.uid)
    stored = connection.execute(
        sa.select(ACCOUNTS.c.used).where(_ACCOUNT.in_([key])).with_for_update()
    ).scalar()
    if stored is None:
        return
    young = _charges(connection, key, since_milliseconds)
    if count.used is None:
        # one that is charged is a quota that another service sees
        if not young:
            connection.execute(sa.delete(ACCOUNTS).where(_ACCOUNT.in_([key])))
        return
    on_the_way = [usages.from_text(amounts) for charge, amounts in young if not has_arrived(cluster, charge)]
    used = usages.to_text(usages.total([count.used, *on_the_way]))
    if used != stored:
        write(connection, key, used)


def _charges(connection: sa.Connection, key: Key, since_milliseconds: int) -> list[tuple[Charge, str]]:
    rows = connection.execute(
        sa.select(CHARGES).where(_CHARGED.in_([key]), CHARGES.c.charged_at >= since_milliseconds)
    )
    return [
        (
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
    ]
