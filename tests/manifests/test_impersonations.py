"""The groups of an impersonated user: ``impersonation.go``."""

from __future__ import annotations

import pytest

from pratique.admission.reviews import impersonated_user


@pytest.mark.parametrize(
    ("name", "groups", "expected"),
    [
        ("jane", (), ("system:authenticated",)),
        ("jane", ("dev", "ops"), ("dev", "ops", "system:authenticated")),
        ("jane", ("system:authenticated", "dev"), ("system:authenticated", "dev")),
        ("jane", ("system:unauthenticated",), ("system:unauthenticated",)),
        ("system:anonymous", (), ("system:unauthenticated",)),
        ("system:anonymous", ("system:unauthenticated",), ("system:unauthenticated",)),
        ("system:serviceaccount:shop:robot", (),
         ("system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated")),
        ("system:serviceaccount:shop:robot", ("dev",), ("dev", "system:authenticated")),
        ("system:serviceaccount:shop", (), ("system:authenticated",)),
        ("system:serviceaccount:Shop:robot", (), ("system:authenticated",)),
    ],
)  # fmt: skip
def test_impersonation_adds_groups_as_the_api_server_does(
    name: str, groups: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    user = impersonated_user(name, groups)
    assert (user.username, user.groups) == (name, expected)
