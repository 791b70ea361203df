"""Charging accounts in a database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from pratique.ledgers import usages
from pratique.ledgers.tables import ACCOUNTS, CHARGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pratique.ledgers.databases import Database
    from pratique.ledgers.protocols import Account, Charge, Decide, Key, Usage

_KEY = sa.tuple_(ACCOUNTS.c.namespace, ACCOUNTS.c.name, ACCOUNTS.c.uid)


def key_of(account: Account) -> Key:
    """The account's key."""
    return account.namespace, account.name, account.uid


def read(database: Database, accounts: Sequence[Account]) -> dict[Key, Usage]:
    """The usage of those accounts that the ledger knows; all of one moment, without a lock."""
    with database.reader.connect() as connection:
        return _used(connection, accounts)


def read_all(database: Database) -> dict[Key, Usage]:
    """The usage of every account that there is."""
    with database.reader.connect() as connection:
        rows = connection.execute(sa.select(ACCOUNTS).order_by(*ACCOUNTS.primary_key.columns))
        return {(row.namespace, row.name, row.uid): usages.from_text(row.used) for row in rows}


def begin(database: Database, accounts: Iterable[Account]) -> None:
    """Begin accounts with what they say they start with, unless somebody else was faster."""
    # counted before the transaction: it may take its time, and nobody is to wait for it
    rows = [
        {"namespace": one.namespace, "name": one.name, "uid": one.uid, "used": usages.to_text(one.start())}
        for one in sorted(accounts, key=key_of)
    ]
    with database.writer.begin() as connection:
        connection.execute(database.insert(ACCOUNTS).on_conflict_do_nothing(), rows)


def charge(
    database: Database,
    accounts: Sequence[Account],
    charge: Charge,
    decide: Decide,
    is_wanted: Callable[[], bool],
) -> bool:
    """Charge accounts in one transaction that locks them.

    Args:
        database: Where they are.
        accounts: What to charge.
        charge: What for.
        decide: Says what their usage becomes.
        is_wanted: Asked before it is committed: False where nobody waits for it any longer.

    Returns:
        False where one of the accounts is not known, so that nothing was done.

    Raises:
        RefusalError: ``decide`` refused; nothing is written.
    """
    with database.writer.begin() as connection:
        used = _used(connection, accounts, lock=True)
        if any(key_of(one) not in used for one in accounts):
            return False
        before = [used[key_of(one)] for one in accounts]
        after = decide(before)
        for account, old, new in zip(accounts, before, after, strict=True):
            if new is not None:
                write(connection, key_of(account), usages.to_text(new))
                _remember(connection, account, usages.growth(old, new), charge)
        if not is_wanted():
            connection.rollback()
    return True


def is_charged(database: Database, charge: Charge) -> bool:
    """Tell whether a request was charged for already, as long as the ledger remembers it."""
    alike = (
        CHARGES.c.namespace == charge.namespace,
        CHARGES.c.request_uid == charge.request_uid,
        CHARGES.c.object_group == charge.group,
        CHARGES.c.object_resource == charge.resource,
        CHARGES.c.object_name == charge.name,
        CHARGES.c.object_uid == charge.uid,
    )
    with database.reader.connect() as connection:
        return connection.execute(sa.select(CHARGES.c.number).where(*alike).limit(1)).first() is not None


def _used(connection: sa.Connection, accounts: Sequence[Account], *, lock: bool = False) -> dict[Key, Usage]:
    # in the order of the key, whatever the order asked for: two that lock the same rows never wait for each other
    query = (
        sa.select(ACCOUNTS)
        .where(_KEY.in_([key_of(one) for one in accounts]))
        .order_by(*ACCOUNTS.primary_key.columns)
    )
    rows = connection.execute(query.with_for_update() if lock else query)
    return {(row.namespace, row.name, row.uid): usages.from_text(row.used) for row in rows}


def write(connection: sa.Connection, key: Key, used: str) -> None:
    """Write an account's usage."""
    connection.execute(sa.update(ACCOUNTS).where(_KEY.in_([key])).values(used=used))


def _remember(connection: sa.Connection, account: Account, more: Usage, charge: Charge) -> None:
    row = {
        "namespace": account.namespace,
        "quota_name": account.name,
        "quota_uid": account.uid,
        "amounts": usages.to_text(more),
        "object_group": charge.group,
        "object_resource": charge.resource,
        "object_name": charge.name,
        "object_uid": charge.uid,
        "old_resource_version": charge.old_resource_version,
        "request_uid": charge.request_uid,
    }
    connection.execute(sa.insert(CHARGES), row)
