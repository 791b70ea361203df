"""Authorizers."""

from __future__ import annotations

from admissions import pod_review
from pratique.authorizers import NO_AUTHORIZER, Attributes, Decision


def test_where_nothing_is_known_nobody_is_granted_anything() -> None:
    review = pod_review({})
    asked = Attributes(user=review.user, verb="get", resource="pods")
    assert review.authorizer is NO_AUTHORIZER
    assert review.authorizer.authorize(asked) == Decision(allowed=False)
