"""Proofs: whether the mutators of a chain may run again, and in another order, without changing anything more.

The questions are those of Kubernetes' Admission Webhook Good Practices, section Mutating webhook ordering and
idempotence. Objects are given, and made up; every answer is for the objects that were tried, and says how many.
"""
