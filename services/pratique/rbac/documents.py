"""The objects of RBAC as they are written.

Source: ``k8s.io/api/rbac/v1/types.go``. The versions ``v1beta1`` and ``v1alpha1``, which Kubernetes no longer serves,
write the same, but for one thing that :func:`read_binding` knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec

from pratique.errors import InputError
from pratique.selectors import LabelSelector  # noqa: TC001 - msgspec reads the annotation

if TYPE_CHECKING:
    from pratique.json_values import JSONObject

GROUP = "rbac.authorization.k8s.io"
AUTHENTICATED = "system:authenticated"
"""The group of all who have said who they are."""

Texts: TypeAlias = tuple[str, ...] | None
_T = TypeVar("_T")


class PolicyRule(msgspec.Struct, frozen=True, rename="camel"):
    """What one rule of a role allows."""

    verbs: Texts = None
    api_groups: Texts = None
    resources: Texts = None
    resource_names: Texts = None
    non_resource_urls: Texts = msgspec.field(default=None, name="nonResourceURLs")


class AggregationRule(msgspec.Struct, frozen=True, rename="camel"):
    """Which other ClusterRoles give a ClusterRole their rules: those that any of the selectors means."""

    cluster_role_selectors: tuple[LabelSelector, ...] | None = None


class Role(msgspec.Struct, frozen=True, rename="camel"):
    """A Role or a ClusterRole."""

    rules: tuple[PolicyRule, ...] | None = None
    aggregation_rule: AggregationRule | None = None


class RoleRef(msgspec.Struct, frozen=True):
    """The role that a binding grants."""

    kind: str = ""
    name: str = ""


class Subject(msgspec.Struct, frozen=True):
    """To whom a binding grants it: a ``User``, a ``Group`` or a ``ServiceAccount``."""

    kind: str = ""
    name: str = ""
    namespace: str | None = None


class Metadata(msgspec.Struct, frozen=True):
    """What a binding is called, and where it is."""

    name: str = ""
    namespace: str | None = None


class Binding(msgspec.Struct, frozen=True, rename="camel"):
    """A RoleBinding or a ClusterRoleBinding."""

    api_version: str = ""
    metadata: Metadata = Metadata()
    role_ref: RoleRef = RoleRef()
    subjects: tuple[Subject, ...] | None = None


def read_role(document: JSONObject) -> Role:
    """Read a Role or a ClusterRole. Raises InputError where it is malformed."""
    return _read(document, Role)


def read_binding(document: JSONObject) -> Binding:
    """Read a RoleBinding or a ClusterRoleBinding.

    In ``v1alpha1`` the user ``*`` is everybody who is authenticated; in other versions it is a name like others.
    Source: ``pkg/apis/rbac/v1alpha1/conversion.go``.

    Raises:
        InputError: it is malformed.
    """
    read = _read(document, Binding)
    if read.api_version != f"{GROUP}/v1alpha1":
        return read
    return msgspec.structs.replace(read, subjects=tuple(map(_from_v1alpha1, read.subjects or ())))


def _from_v1alpha1(subject: Subject) -> Subject:
    everybody = (subject.kind, subject.name) == ("User", "*")
    return Subject("Group", AUTHENTICATED) if everybody else subject


def check(resource: str, document: JSONObject) -> None:
    """See that an object of the RBAC group can be read. Raises InputError that names the field where it cannot."""
    if resource in {"roles", "clusterroles"}:
        read_role(document)
    elif resource in {"rolebindings", "clusterrolebindings"}:
        read_binding(document)


def _read(document: JSONObject, wanted: type[_T]) -> _T:
    try:
        return msgspec.convert(document, wanted)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$.")
        field = place.rstrip("`")
        raise InputError(f"{field}: {text}" if field else text) from None
