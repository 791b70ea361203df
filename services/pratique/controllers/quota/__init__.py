"""Quotas: what objects use of their namespace's resources, and whether that fits its ResourceQuotas.

Evaluation has no side effects; :mod:`pratique.controllers.quota.ledger` keeps the usage.
"""
