"""GroupVersionKind and GroupVersionResource: the type of an object, and the collection it is stored in.

Parsing follows ``k8s.io/apimachinery/pkg/runtime/schema/group_version.go``.
"""

from __future__ import annotations

import msgspec

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSON, JSONObject, json_type


class GroupVersionKind(msgspec.Struct, frozen=True):
    """The type of an object. The empty group is the core group."""

    group: str = ""
    version: str = ""
    kind: str = ""

    @property
    def api_version(self) -> str:
        """Group and version as in ``apiVersion``: ``apps/v1``, or ``v1`` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        """As Go prints it: ``apps/v1, Kind=Deployment``."""
        return f"{self.group}/{self.version}, Kind={self.kind}"


class GroupVersionResource(msgspec.Struct, frozen=True):
    """The collection that an object is stored in. The empty group is the core group."""

    group: str = ""
    version: str = ""
    resource: str = ""

    def __str__(self) -> str:
        """As Go prints it: ``apps/v1, Resource=deployments``."""
        return f"{self.group}/{self.version}, Resource={self.resource}"


class ResourceType(msgspec.Struct, frozen=True, kw_only=True):
    """A collection or one of its subresources, as an API server registers it."""

    resource: GroupVersionResource
    """The collection."""
    kind: GroupVersionKind
    """The kind it accepts: ``policy/v1`` Eviction for ``pods/eviction``."""
    namespaced: bool
    """False if it is cluster-scoped."""
    subresource: str = ""
    """The subresource, such as ``status``; empty for the collection itself."""
    removed_in: str | None = None
    """The Kubernetes release that removed it, such as ``1.22``; None if the current release has it."""
    served: bool = True
    """False for a version of a custom resource that exists only for conversion."""


def kind_of(document: JSON) -> GroupVersionKind:
    """Read the type of an object from its ``apiVersion`` and ``kind``.

    Raises:
        InputError: it is not an object, or one of the two is missing or malformed.
    """
    if not isinstance(document, dict):
        raise InputError(f"a Kubernetes object is a mapping, not {json_type(document)}")
    group, version = parse_api_version(_text(document, "apiVersion", '"v1" or "apps/v1"'))
    return GroupVersionKind(group, version, _text(document, "kind", '"Pod"'))


def is_kind(document: JSON, kind: str) -> bool:
    """Tell whether an object is of a kind; an object without a kind counts as one."""
    return isinstance(document, dict) and document.get("kind", kind) == kind


def _text(document: JSONObject, member: str, example: str) -> str:
    value: JSON = document.get(member)
    if value is None or value == "":
        raise InputError(f"{member} not set: every Kubernetes object names one, such as {example}")
    if not isinstance(value, str):
        raise InputError(f"{member}: must be a string such as {example}, not {json_type(value)}")
    return value


def parse_api_version(text: str) -> tuple[str, str]:
    """Split ``apps/v1`` into group and version; ``v1`` belongs to the core group.

    Raises:
        InputError: it has more than one slash, or an empty group or version.
    """
    group, slash, version = text.rpartition("/")
    if "/" in group or not version or (slash and not group):
        raise InputError(
            f'apiVersion: unexpected GroupVersion string: {text}: write "v1" or "<group>/<version>"'
        )
    return group, version
