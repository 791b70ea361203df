"""Structured merges: an object and a part of one that is applied to it become one object, by the kind's schema.

Source: ``sigs.k8s.io/structured-merge-diff/v6``, which server-side apply and mutating policies share.
"""

from __future__ import annotations

from pratique.structured_merges.applications import ApplyError, apply

__all__ = ["ApplyError", "apply"]
