"""Whom controllers ask who may do what."""

from __future__ import annotations

import dataclasses

from pratique.apimachinery.requests import UserInfo
from pratique.cluster.authorization import AuthorizationAttributes, AuthorizationDecision
from pratique.cluster.store import ObjectStore
from support.admissions import pod_review
from support.role_bindings import binding, role

ROLES = ObjectStore(
    [role("view", verbs=["get"], resources=["pods"]), binding("a", "ClusterRole/view", "User/ann")]
)
ANN = UserInfo("ann")
ASKED = {"verb": "get", "resource": "pods"}


class Permitting:
    """Says yes to everybody."""

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        return AuthorizationDecision(allowed=True)


def test_where_nothing_is_known_nobody_is_granted_anything() -> None:
    review = pod_review({})
    found = review.authorizer.authorize(AuthorizationAttributes(user=review.user, **ASKED))
    assert found == AuthorizationDecision(allowed=False)


def test_the_roles_of_a_reviews_cluster_decide() -> None:
    review = dataclasses.replace(pod_review({}), cluster=ROLES)
    assert review.authorizer.authorize(AuthorizationAttributes(user=ANN, **ASKED)).allowed
    elsewhere = dataclasses.replace(review, cluster=ObjectStore())
    assert not elsewhere.authorizer.authorize(AuthorizationAttributes(user=ANN, **ASKED)).allowed


def test_another_authorizer_stays_with_its_review() -> None:
    review = dataclasses.replace(pod_review({}), authorizer=Permitting())
    moved = dataclasses.replace(review, cluster=ROLES)
    assert moved.authorizer is review.authorizer
