"""Authorizers: who may do what, as far as controllers and expressions have to ask.

The one that decides by the Roles and bindings of a cluster is :mod:`pratique.rbac`.

Source: ``k8s.io/apiserver/pkg/authorization/authorizer/interfaces.go``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from pratique.reviews import UserInfo


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """What is asked. ``path`` is for requests that are for no resource, all else for those that are."""

    user: UserInfo
    verb: str
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """What an authorizer says."""

    cel_type: ClassVar[str] = "kubernetes.authorization.Decision"
    """What expressions call it, to whom it is a value like others."""
    allowed: bool
    reason: str = ""
    error: str = ""
    """Why it could not be decided; empty where it could."""


class Authorizer(Protocol):
    """Decides who may do what, as the RBAC of a cluster does.

    Decisions are synchronous because they are made from memory, as look-ups in a cluster are.
    """

    def authorize(self, attributes: Attributes) -> Decision:
        """Decide. Where nothing speaks for it, it is not allowed."""
