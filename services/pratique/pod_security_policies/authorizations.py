"""Authorizations: who may use which policy.

Source: ``plugin/pkg/admission/security/podsecuritypolicy/admission.go`` ``isAuthorizedForPolicy`` of 1.24.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique import pod_references
from pratique.authorizers import Attributes
from pratique.reviews import UserInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.reviews import Review

_GROUPS = ("policy", "extensions")
"""Policies moved from the second group to the first; roles may still name the second."""


def may_use(review: Review, policy: str) -> bool:
    """Tell whether the Pod's ServiceAccount or the user may use a policy in the Pod's namespace."""
    return any(
        review.authorizer.authorize(
            Attributes(
                user=user,
                verb="use",
                group=group,
                resource="podsecuritypolicies",
                namespace=review.namespace,
                name=policy,
            )
        ).allowed
        for user in _users(review)
        for group in _GROUPS
    )


def _users(review: Review) -> Iterator[UserInfo]:
    """Whose permissions count: first the account's, which is the more common case."""
    account = pod_references.service_account_name(review.object)
    if account:
        yield account_user(review.namespace, account)
    yield review.user


def account_user(namespace: str, name: str) -> UserInfo:
    """The user that a ServiceAccount is."""
    return UserInfo(
        f"system:serviceaccount:{namespace}:{name}",
        groups=("system:serviceaccounts", f"system:serviceaccounts:{namespace}"),
    )
