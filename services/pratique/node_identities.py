"""Node identities: which node a user is.

Source: ``pkg/auth/nodeidentifier/default.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pratique.reviews import UserInfo

USER_PREFIX = "system:node:"
GROUP = "system:nodes"


def node_name(user: UserInfo) -> str | None:
    """The name of the node that a user is, empty where the user's name holds none; None for everybody else."""
    if GROUP not in user.groups or not user.username.startswith(USER_PREFIX):
        return None
    return user.username.removeprefix(USER_PREFIX)
