"""The tables of a ledger. None of them holds a time: no clock decides anything about a charge."""

from __future__ import annotations

import sqlalchemy as sa

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
    sa.Column("amounts", sa.Text, nullable=False),
    sa.Column("object_group", sa.Text, nullable=False),
    sa.Column("object_resource", sa.Text, nullable=False),
    sa.Column("object_name", sa.Text, nullable=False),
    sa.Column("object_uid", sa.Text, nullable=False),
    sa.Column("old_resource_version", sa.Text),
    sa.Column("request_uid", sa.Text, nullable=False),
    sa.Index("pratique_quota_charges_of_account", "namespace", "quota_name", "quota_uid", "number"),
    sqlite_autoincrement=True,
)
"""One row a charge and account, for as long as its object may not have arrived. Objects are in the quota's namespace.
Numbers only grow, and none is given twice (hence AUTOINCREMENT in SQLite): they are the order in which charges were
made, which is all that is known of their age."""

LEDGER = sa.Table(
    "pratique_quota_ledger",
    METADATA,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("identity", sa.Text, nullable=False),
    sa.Column("turn", sa.BigInteger, nullable=False),
    sa.Column("settled", sa.BigInteger, nullable=False),
)
"""One row. ``identity`` is random and tells this ledger from any other. ``turn`` counts reconciliations. ``settled`` is
the highest number among the charges that were given up: a service may count usage only in a cluster's state that is
known to be younger than all of them."""

EARLIER = "pratique_quota_reconciliations"
"""A table of ledgers that went by the clock."""
