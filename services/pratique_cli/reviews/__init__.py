"""``pratique review``: from input documents to decisions."""
