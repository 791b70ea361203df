"""Replays of recorded reviews with another configuration, and their differences."""
