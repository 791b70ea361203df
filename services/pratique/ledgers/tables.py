"""The tables of a ledger, and the clock that all who share it go by: the database's."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

METADATA = sa.MetaData()

# SQLite counts rows up by itself only in a column that is exactly INTEGER, which has 64 bits there.
_ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

ACCOUNTS = sa.Table(
    "pratique_quota_accounts",
    METADATA,
    sa.Column("namespace", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("uid", sa.Text, primary_key=True),
    sa.Column("used", sa.Text, nullable=False),
)
"""One row a ResourceQuota, with its usage as ``pratique.ledgers.usages`` writes it. The uid is part of the key, so that
a quota made anew under its old name, and a service that has not seen that yet, do not get in each other's way."""

CHARGES = sa.Table(
    "pratique_quota_charges",
    METADATA,
    sa.Column("number", _ROW_NUMBER, primary_key=True, autoincrement=True),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("quota_name", sa.Text, nullable=False),
    sa.Column("quota_uid", sa.Text, nullable=False),
    sa.Column("charged_at", sa.BigInteger, nullable=False),
    sa.Column("amounts", sa.Text, nullable=False),
    sa.Column("object_group", sa.Text, nullable=False),
    sa.Column("object_resource", sa.Text, nullable=False),
    sa.Column("object_name", sa.Text, nullable=False),
    sa.Column("object_uid", sa.Text, nullable=False),
    sa.Column("old_resource_version", sa.Text),
    sa.Column("request_uid", sa.Text, nullable=False),
    sa.Index("pratique_quota_charges_of_account", "namespace", "quota_name", "quota_uid", "charged_at"),
    sa.Index("pratique_quota_charges_by_age", "charged_at"),
)
"""One row a charge and account, for as long as its object may not have arrived. Objects are in the quota's namespace.
Times are milliseconds since 1970."""

RECONCILIATIONS = sa.Table(
    "pratique_quota_reconciliations",
    METADATA,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("begun_at", sa.BigInteger, nullable=False),
)
"""One row: when somebody last began to reconcile."""


class now(FunctionElement[int]):  # noqa: N801 - reads as the SQL functions beside it
    """Milliseconds since 1970 by the database's clock, at this moment and not when the transaction began."""

    type = sa.BigInteger()
    inherit_cache = True


@compiles(now, "sqlite")
def _on_sqlite(*_: Any, **__: Any) -> str:
    # unixepoch('subsec') is not known before SQLite 3.42; 2440587.5 is 1970 in julian days
    return "CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)"


@compiles(now, "postgresql")
def _on_postgresql(*_: Any, **__: Any) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"
