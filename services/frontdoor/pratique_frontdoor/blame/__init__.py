"""Blame: which step set each changed field, and which step last changed the fields that a denial names.

The patches of the steps are replayed on the received object, as a tree in which every field remembers the steps that
changed it (``fields``). Differences of the final object, and the fields of denials, are then reported with those steps
(``changes``).
"""

from __future__ import annotations

from pratique_frontdoor.blame.changes import Blame, BlamedDenial, Change, blame_document, blame_of

__all__ = ["Blame", "BlamedDenial", "Change", "blame_document", "blame_of"]
