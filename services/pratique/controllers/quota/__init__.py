"""Quotas: what objects use of the resources of their namespace, and whether that fits into its ResourceQuotas.

Everything here is a function of its arguments; usage is kept in :mod:`pratique.controllers.quota.ledger`.
"""

from __future__ import annotations

from pratique.controllers.quota.checks import starting_usage, usage_of
from pratique.controllers.quota.resource_quotas import Quota, read_quota

__all__ = ["Quota", "read_quota", "starting_usage", "usage_of"]
