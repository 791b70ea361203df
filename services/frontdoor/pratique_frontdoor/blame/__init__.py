"""Blames: which step set each field that came out otherwise than it came in, and whom a denial goes back to.

The steps' patches are replayed on the object received, on a tree in which every field remembers the steps that
changed it (``fields``, ``edits``, ``replays``). What differs in the end is told with the steps that the fields
remember (``changes``), and so is what denials speak of (``denials``).
"""

from __future__ import annotations

from pratique_frontdoor.blame.changes import Blame, BlamedDenial, Change, blame_document, blame_of

__all__ = ["Blame", "BlamedDenial", "Change", "blame_document", "blame_of"]
