"""What is said of requests that got no answer."""

from __future__ import annotations

from pratique.statuses import go_quoted


def failed_post(url: str, reason: str) -> str:
    """Say that a POST failed, as Go's ``url.Error`` does."""
    return f"Post {go_quoted(url)}: {reason}"
