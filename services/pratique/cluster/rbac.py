"""RBAC: Roles and bindings as written, compiled, and evaluated.

Sources: ``k8s.io/kubernetes/pkg/apis/rbac/v1/evaluation_helpers.go`` and ``pkg/registry/rbac/validation/rule.go``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import msgspec

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.prepared_types import prepared
from pratique.apimachinery.requests import UserInfo
from pratique.apimachinery.selectors import LabelSelector, compile_selector
from pratique.apimachinery.statuses import go_quoted

if TYPE_CHECKING:
    # At runtime this would be a circle: the authorizer evaluates these rules.
    from pratique.cluster.authorization import AuthorizationAttributes

RBAC_GROUP = "rbac.authorization.k8s.io"
AUTHENTICATED = "system:authenticated"
"""The group of all authenticated users."""

Texts: TypeAlias = tuple[str, ...] | None
_T = TypeVar("_T")


class PolicyRule(msgspec.Struct, frozen=True, rename="camel"):
    """One rule of a role, as written."""

    verbs: Texts = None
    api_groups: Texts = None
    resources: Texts = None
    resource_names: Texts = None
    non_resource_urls: Texts = msgspec.field(default=None, name="nonResourceURLs")


class AggregationRule(msgspec.Struct, frozen=True, rename="camel"):
    """Selects the ClusterRoles whose rules a ClusterRole aggregates: those that any selector matches."""

    cluster_role_selectors: tuple[LabelSelector, ...] | None = None


class Role(msgspec.Struct, frozen=True, rename="camel"):
    """A Role or a ClusterRole."""

    rules: tuple[PolicyRule, ...] | None = None
    aggregation_rule: AggregationRule | None = None


class RoleRef(msgspec.Struct, frozen=True):
    """The role that a binding grants."""

    kind: str = ""
    name: str = ""


class RbacSubject(msgspec.Struct, frozen=True):
    """A subject of a binding: a ``User``, a ``Group`` or a ``ServiceAccount``."""

    kind: str = ""
    name: str = ""
    namespace: str | None = None


class BindingMetadata(msgspec.Struct, frozen=True):
    """The name and namespace of a binding."""

    name: str = ""
    namespace: str | None = None


class RoleBinding(msgspec.Struct, frozen=True, rename="camel"):
    """A RoleBinding or a ClusterRoleBinding."""

    api_version: str = ""
    metadata: BindingMetadata = BindingMetadata()
    role_ref: RoleRef = RoleRef()
    subjects: tuple[RbacSubject, ...] | None = None


def read_role(document: JSONObject) -> Role:
    """Decode a Role or ClusterRole. Raises InputError if it is malformed."""
    return _read(document, Role)


def read_binding(document: JSONObject) -> RoleBinding:
    """Decode a RoleBinding or ClusterRoleBinding.

    In ``v1alpha1`` the user ``*`` means all authenticated users; in other versions it is an ordinary name.
    Source: ``pkg/apis/rbac/v1alpha1/conversion.go``.

    Raises:
        InputError: it is malformed.
    """
    read = _read(document, RoleBinding)
    if read.api_version != f"{RBAC_GROUP}/v1alpha1":
        return read
    return msgspec.structs.replace(read, subjects=tuple(map(_from_v1alpha1, read.subjects or ())))


def _from_v1alpha1(subject: RbacSubject) -> RbacSubject:
    everybody = (subject.kind, subject.name) == ("User", "*")
    return RbacSubject("Group", AUTHENTICATED) if everybody else subject


def check_rbac_object(resource: str, document: JSONObject) -> None:
    """Check that an object of the RBAC group can be decoded. Raises InputError with the field if not."""
    if resource in {"roles", "clusterroles"}:
        read_role(document)
    elif resource in {"rolebindings", "clusterrolebindings"}:
        read_binding(document)


def _read(document: JSONObject, wanted: type[_T]) -> _T:
    try:
        return msgspec.convert(document, prepared(wanted))
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$.")
        field = place.rstrip("`")
        raise InputError(f"{field}: {text}" if field else text) from None


_ALL = "*"


class CompiledPolicyRule(msgspec.Struct, frozen=True, kw_only=True):
    """A compiled PolicyRule."""

    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    """``pods``, ``pods/log``, ``*/log`` for a subresource of all resources, or ``*`` for everything."""
    names: frozenset[str]
    """The object names it is limited to; empty means all."""
    urls: frozenset[str]
    url_prefixes: tuple[str, ...]
    """The prefixes of URLs that the rule writes with a trailing ``*``."""

    def allows(self, asked: AuthorizationAttributes) -> bool:
        """Tell whether the rule allows a request. Field and label selectors do not matter: rules have none."""
        if not _allows_value(self.verbs, asked.verb):
            return False
        if asked.path:
            return asked.path in self.urls or asked.path.startswith(self.url_prefixes)
        return (
            _allows_value(self.groups, asked.group)
            and self._has_resource(asked.resource, asked.subresource)
            and (not self.names or asked.name in self.names)
        )

    def _has_resource(self, resource: str, subresource: str) -> bool:
        if not subresource:
            return _allows_value(self.resources, resource)
        return (
            _allows_value(self.resources, f"{resource}/{subresource}") or f"*/{subresource}" in self.resources
        )


def _allows_value(values: frozenset[str], value: str) -> bool:
    return _ALL in values or value in values


def compile_rule(rule: PolicyRule) -> CompiledPolicyRule:
    """Compile a rule."""
    # Like Go's strings.TrimRight, rstrip removes all trailing stars.
    urls = rule.non_resource_urls or ()
    return CompiledPolicyRule(
        verbs=frozenset(rule.verbs or ()),
        groups=frozenset(rule.api_groups or ()),
        resources=frozenset(rule.resources or ()),
        names=frozenset(rule.resource_names or ()),
        urls=frozenset(urls),
        url_prefixes=tuple(url.rstrip(_ALL) for url in urls if url.endswith(_ALL)),
    )


def compile_rules(rules: Iterable[PolicyRule]) -> tuple[CompiledPolicyRule, ...]:
    """Compile rules."""
    return tuple(map(compile_rule, rules))


def aggregated_rules(name: str, roles: Mapping[str, JSONObject]) -> tuple[PolicyRule, ...]:
    """The rules of a ClusterRole and of the roles it aggregates, transitively and without duplicates.

    In a cluster, the clusterrole-aggregation controller arrives at the same rules after a while.

    Args:
        name: The ClusterRole's name, one of ``roles``.
        roles: All ClusterRoles, by name.
    """
    rules: dict[PolicyRule, None] = {}
    reached = [name]
    for role_name in reached:
        role = read_role(roles[role_name])
        rules |= dict.fromkeys(role.rules or ())
        if role.aggregation_rule is not None:
            reached += [other for other in _selected(role.aggregation_rule, roles) if other not in reached]
    return tuple(rules)


def _selected(rule: AggregationRule, roles: Mapping[str, JSONObject]) -> Iterator[str]:
    try:
        selectors = [compile_selector(selector) for selector in rule.cluster_role_selectors or ()]
    except InputError:
        return  # the controller skips such a role, which keeps its own rules
    for name, role in roles.items():
        if any(selector.matches_object(role) for selector in selectors):
            yield name


class Roles:
    """The Roles of a namespace, or all ClusterRoles, each compiled on first use."""

    __slots__ = ("_compiled", "_documents", "_rules_of")

    def __init__(
        self,
        documents: Sequence[JSONObject],
        rules_of: Callable[[str, Mapping[str, JSONObject]], Sequence[PolicyRule]],
    ) -> None:
        """Use :func:`namespaced_roles` or :func:`cluster_roles`."""
        self._documents = {document["metadata"]["name"]: document for document in documents}
        self._rules_of = rules_of
        self._compiled: dict[str, tuple[CompiledPolicyRule, ...]] = {}

    def rules(self, name: str) -> tuple[CompiledPolicyRule, ...] | None:
        """The rules of a role; None if there is no such role."""
        found = self._compiled.get(name)
        if found is None and name in self._documents:
            found = self._compiled[name] = compile_rules(self._rules_of(name, self._documents))
        return found


def namespaced_roles(documents: Sequence[JSONObject]) -> Roles:
    """The Roles of one namespace."""
    return Roles(documents, lambda name, roles: read_role(roles[name]).rules or ())


def cluster_roles(documents: Sequence[JSONObject]) -> Roles:
    """The ClusterRoles of a cluster, with aggregated rules."""
    return Roles(documents, aggregated_rules)


SERVICE_ACCOUNT_PREFIX = "system:serviceaccount"
"""The prefix of a ServiceAccount's user name; namespace and name follow, each after a colon."""


class Grant(msgspec.Struct, frozen=True):
    """A binding that applies to a user, through its first matching subject."""

    binding: RoleBinding
    subject: RbacSubject
    namespace: str
    """The namespace of the binding; empty for a ClusterRoleBinding."""

    @property
    def role(self) -> RoleRef:
        """The role it grants."""
        return self.binding.role_ref

    def __str__(self) -> str:
        """Print as in an API server's reason, which writes the namespace after the name."""
        kind, place = ("RoleBinding", f"/{self.namespace}") if self.namespace else ("ClusterRoleBinding", "")
        role, subject = self.role, self.subject
        whom = subject.name
        if subject.kind == "ServiceAccount":
            whom = f"{subject.name}/{subject.namespace or self.namespace}"
        return (
            f"{kind} {go_quoted(self.binding.metadata.name + place)}"
            f" of {role.kind} {go_quoted(role.name)} to {subject.kind} {go_quoted(whom)}"
        )


class _SubjectIndex(NamedTuple):
    """The index of a binding, and of a subject in it."""

    binding: int
    subject: int


class Bindings:
    """The RoleBindings of a namespace, or all ClusterRoleBindings, indexed by subject.

    A look-up takes time in proportion to the bindings of the user, not to all bindings.
    """

    __slots__ = ("_bindings", "_groups", "_namespace", "_users")

    def __init__(self, documents: Sequence[JSONObject], namespace: str = "") -> None:
        """Index bindings.

        Args:
            documents: The bindings, in the order in which they apply.
            namespace: Their namespace; empty for ClusterRoleBindings.

        Raises:
            InputError: one of them is malformed.
        """
        self._bindings = tuple(map(read_binding, documents))
        self._namespace = namespace
        self._users: dict[str, list[_SubjectIndex]] = {}
        self._groups: dict[str, list[_SubjectIndex]] = {}
        for place, binding in enumerate(self._bindings):
            for index, subject in enumerate(binding.subjects or ()):
                self._index_subject(subject, _SubjectIndex(place, index))

    def _index_subject(self, subject: RbacSubject, place: _SubjectIndex) -> None:
        if subject.kind == "Group":
            self._groups.setdefault(subject.name, []).append(place)
        elif subject.kind == "User":
            self._users.setdefault(subject.name, []).append(place)
        elif subject.kind == "ServiceAccount":
            namespace = subject.namespace or self._namespace
            if namespace:
                name = f"{SERVICE_ACCOUNT_PREFIX}:{namespace}:{subject.name}"
                self._users.setdefault(name, []).append(place)

    def for_user(self, user: UserInfo) -> Iterator[Grant]:
        """The bindings that apply to a user, in order."""
        as_groups = (self._groups.get(group, ()) for group in user.groups)
        places = sorted(itertools.chain(self._users.get(user.username, ()), *as_groups))
        for binding, (first, *_) in itertools.groupby(places, key=lambda place: place.binding):
            found = self._bindings[binding]
            yield Grant(found, (found.subjects or ())[first.subject], self._namespace)
