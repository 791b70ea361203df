"""Recordings: reviews and decisions as JSON Lines, without secrets."""
