"""Bindings: to whom which role is granted.

Source: ``pkg/registry/rbac/validation/rule.go``.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, NamedTuple

from pratique.rbac.documents import Binding, RoleRef, Subject, read_binding
from pratique.statuses import go_quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pratique.json_values import JSONObject
    from pratique.reviews import UserInfo

SERVICE_ACCOUNT = "system:serviceaccount"
"""What the user name of a ServiceAccount begins with; its namespace and name follow, each after a colon."""


@dataclasses.dataclass(frozen=True, slots=True)
class Grant:
    """A binding that applies to somebody, by the first of its subjects that means him."""

    binding: Binding
    subject: Subject
    namespace: str
    """Where the binding is; empty for a ClusterRoleBinding."""

    @property
    def role(self) -> RoleRef:
        """What is granted."""
        return self.binding.role_ref

    def __str__(self) -> str:
        """As API servers give it as a reason. A namespace stands behind the name there, not in front of it."""
        kind, place = ("RoleBinding", f"/{self.namespace}") if self.namespace else ("ClusterRoleBinding", "")
        role, subject = self.role, self.subject
        whom = subject.name
        if subject.kind == "ServiceAccount":
            whom = f"{subject.name}/{subject.namespace or self.namespace}"
        return (
            f"{kind} {go_quoted(self.binding.metadata.name + place)}"
            f" of {role.kind} {go_quoted(role.name)} to {subject.kind} {go_quoted(whom)}"
        )


class _Place(NamedTuple):
    """Where somebody is named: the binding's place among all, and the subject's in it."""

    binding: int
    subject: int


class Bindings:
    """All RoleBindings of one namespace, or all ClusterRoleBindings, by those whom they name.

    How long it takes to find somebody's depends on how many those are, not on how many there are.
    """

    __slots__ = ("_bindings", "_groups", "_namespace", "_users")

    def __init__(self, documents: Sequence[JSONObject], namespace: str = "") -> None:
        """Hold bindings.

        Args:
            documents: The bindings, in the order in which they are to be looked at.
            namespace: Where they are; empty for ClusterRoleBindings.

        Raises:
            InputError: one of them is malformed.
        """
        self._bindings = tuple(map(read_binding, documents))
        self._namespace = namespace
        self._users: dict[str, list[_Place]] = {}
        self._groups: dict[str, list[_Place]] = {}
        for place, binding in enumerate(self._bindings):
            for index, subject in enumerate(binding.subjects or ()):
                self._enter(subject, _Place(place, index))

    def _enter(self, subject: Subject, place: _Place) -> None:
        if subject.kind == "Group":
            self._groups.setdefault(subject.name, []).append(place)
        elif subject.kind == "User":
            self._users.setdefault(subject.name, []).append(place)
        elif subject.kind == "ServiceAccount":
            namespace = subject.namespace or self._namespace
            if namespace:
                name = f"{SERVICE_ACCOUNT}:{namespace}:{subject.name}"
                self._users.setdefault(name, []).append(place)

    def of(self, user: UserInfo) -> Iterator[Grant]:
        """The bindings that apply to somebody, in their order."""
        as_groups = (self._groups.get(group, ()) for group in user.groups)
        places = sorted(itertools.chain(self._users.get(user.username, ()), *as_groups))
        for binding, (first, *_) in itertools.groupby(places, key=lambda place: place.binding):
            found = self._bindings[binding]
            yield Grant(found, (found.subjects or ())[first.subject], self._namespace)
