"""Recordings: reviews and what was decided, as JSON Lines, without what is secret in them."""
