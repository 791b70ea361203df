"""The authorizer of a review."""

from __future__ import annotations

import msgspec

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


def test_a_cluster_without_rbac_objects_grants_nothing() -> None:
    review = pod_review({})
    found = review.authorizer.authorize(AuthorizationAttributes(user=review.user, **ASKED))
    assert found == AuthorizationDecision(allowed=False)


def test_a_review_is_authorized_by_the_roles_of_its_cluster() -> None:
    review = msgspec.structs.replace(pod_review({}), cluster=ROLES)
    assert review.authorizer.authorize(AuthorizationAttributes(user=ANN, **ASKED)).allowed
    elsewhere = msgspec.structs.replace(review, cluster=ObjectStore())
    assert not elsewhere.authorizer.authorize(AuthorizationAttributes(user=ANN, **ASKED)).allowed


def test_a_review_keeps_an_authorizer_of_its_own() -> None:
    review = msgspec.structs.replace(pod_review({}), authorizer=Permitting())
    moved = msgspec.structs.replace(review, cluster=ROLES)
    assert moved.authorizer is review.authorizer
