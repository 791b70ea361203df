"""Quotas: what objects use of the resources of their namespace, and whether that fits into its ResourceQuotas.

Everything here is a function of its arguments; where usage is kept is the business of :mod:`pratique.ledgers`.
"""

from __future__ import annotations

from pratique.quotas.quota_objects import Quota, read_quota
from pratique.quotas.usages import starting_usage, usage_of

__all__ = ["Quota", "read_quota", "starting_usage", "usage_of"]
