"""What a request does, and the user who makes it.

Source: ``k8s.io/api/authentication/v1`` ``UserInfo``, ``k8s.io/apiserver/pkg/admission`` ``Operation``.
"""

from __future__ import annotations

import enum

import msgspec


class Operation(enum.StrEnum):
    """What the request does."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"

    __hash__ = str.__hash__  # an enum's own is a call into Python, and every rule looks requests up by this


class UserInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who asks, as the API server authenticated it."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}
