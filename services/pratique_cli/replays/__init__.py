"""Replays: recorded reviews, decided again by another configuration, and what differs."""
