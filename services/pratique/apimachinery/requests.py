"""What a request to an API server says besides its object: the operation, the user, the kind and the resource.

Sources: ``k8s.io/api/authentication/v1`` ``UserInfo``, and ``k8s.io/apiserver/pkg/admission`` ``Operation`` and
``Attributes``.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    # At runtime this would be a circle: kinds imports the errors, which hold a Status, which names a request.
    from pratique.apimachinery.json_values import JSON
    from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource


class Operation(enum.StrEnum):
    """The operation of a request."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"

    __hash__ = str.__hash__  # an enum's own is a call into Python, and every rule looks requests up by this


class UserInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """The user that the API server authenticated."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class RequestAttributes(Protocol):
    """The attributes of a request, of which a review has more: ``admission.Attributes``."""

    @property
    def kind(self) -> GroupVersionKind:
        """The kind of the object."""

    @property
    def resource(self) -> GroupVersionResource:
        """The collection of the object."""

    @property
    def subresource(self) -> str:
        """The subresource, such as ``status``; empty for the resource itself."""

    @property
    def name(self) -> str:
        """The name of the object; empty if it is yet to be generated."""

    @property
    def namespace(self) -> str:
        """The namespace of the request; empty for cluster-scoped objects."""

    @property
    def object(self) -> JSON:
        """The object; None on DELETE."""

    @property
    def old_object(self) -> JSON:
        """The stored object; None on CREATE."""
