"""Rules about trust: on which hosts, versions, users and namespaces an admission decision depends."""

from __future__ import annotations

import ipaddress
import itertools
import re
import socket
from collections.abc import Iterator

import msgspec

from pratique.admission.rules import Rule
from pratique.apimachinery.kinds import kind_of
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.requests import UserInfo
from pratique.apimachinery.statuses import go_quoted
from pratique.apimachinery.urls import parse_url
from pratique.cluster import rbac
from pratique.cluster.authorization import AuthorizationAttributes
from pratique.cluster.rbac import (
    CompiledPolicyRule,
    RbacSubject,
    RoleBinding,
    Roles,
    cluster_roles,
    read_binding,
)
from pratique.configuration.admissionregistration import MutatingAdmissionPolicySpec
from pratique.lint.outage_simulation import WebhookName
from pratique.lint.rules import (
    ADMISSION_GROUP,
    ADMISSION_RESOURCES,
    LintContext,
    LintRule,
    Owner,
    Severity,
    Violation,
)

_METADATA_NAMES = frozenset({"metadata.google.internal", "instance-data", "instance-data.ec2.internal"})
_METADATA_ADDRESSES = frozenset(
    map(ipaddress.ip_address, ("169.254.169.254", "fd00:ec2::254", "100.100.100.200"))
)
"""The metadata servers of clouds, which give a machine its credentials. None of them answers reviews."""


def _find_local_hosts(context: LintContext) -> Iterator[Violation]:
    for hook in context.hooks:
        url = hook.webhook.client_config.url
        if url and (what := _host_problem(parse_url(url).host)):
            yield hook.violation(f"the host of its URL is {what}", "clientConfig", "url")


def _host_problem(host: str) -> str:
    """What is wrong with a host, which may have a port; empty if nothing is."""
    name = _without_port(host).rstrip(".").lower()
    if name in _METADATA_NAMES:
        return "the metadata server of a cloud"
    if name == "localhost" or name.endswith(".localhost"):
        return f"{name}, which is the calling machine"
    address = _address(name)
    if address is None:
        return ""
    if address in _METADATA_ADDRESSES:
        return f"{name}, the metadata server of a cloud"
    if address.is_loopback or address.is_unspecified:
        return f"{name}, which is the calling machine"
    return f"{name}, which is valid on one link only" if address.is_link_local else ""


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0].partition("%")[0]
    return host.partition(":")[0]


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        try:
            # Resolvers also accept "127.1", "0x7f.1" and "2130706433" as addresses.
            return ipaddress.ip_address(socket.inet_aton(name))
        except (OSError, UnicodeError):
            return None
    return getattr(address, "ipv4_mapped", None) or address


NEAR_HOST = LintRule(
    name="local-host",
    severity=Severity.WARNING,
    explanation="A localhost or link-local URL needs a webhook on every machine of the control plane.",
    fix="Run the webhook behind a Service, or at a name that all API servers resolve to the same address.",
    check=_find_local_hosts,
)


def _find_duplicate_names(context: LintContext) -> Iterator[Violation]:
    seen: dict[WebhookName, int] = {}
    for hook in context.hooks:
        first = seen.setdefault(hook.name, hook.index)
        if first != hook.index:
            text = (
                f"webhook {first + 1} of this configuration has the same name: logs and metrics confuse them"
            )
            yield hook.violation(text, "name")


SAME_NAMES = LintRule(
    name="duplicate-webhook-name",
    severity=Severity.WARNING,
    explanation="v1beta1 allows two webhooks with the same name; v1 rejects the configuration.",
    fix="Give each webhook its own name.",
    check=_find_duplicate_names,
)
_UNSTABLE = pattern(r"v\d+(?:alpha|beta)\d+")


def _find_unstable_versions(context: LintContext) -> Iterator[Violation]:
    for owner in context.owners:
        yield from _unstable_document(owner, context)
    for owner, path, rules in context.all_rules:
        for index, rule in enumerate(rules):
            versions = rule.api_versions
            if versions and all(map(_UNSTABLE.fullmatch, versions)) and _is_stable_elsewhere(rule, context):
                text = f"names only {', '.join(versions)}, which a release may drop, though there is a stable version"
                yield Violation(owner, (*path, index, "apiVersions"), text)


def _unstable_document(owner: Owner, context: LintContext) -> Iterator[Violation]:
    if owner.source is None:
        return
    kind = kind_of(owner.source.data)
    if not _UNSTABLE.fullmatch(kind.version):
        return
    kinds = (
        type_ for type_ in context.cluster.resources if not type_.subresource and type_.removed_in is None
    )
    stable = [
        type_.kind.version
        for type_ in kinds
        if (type_.kind.group, type_.kind.kind) == (kind.group, kind.kind)
    ]
    better = [version for version in stable if not _UNSTABLE.fullmatch(version)]
    if better or "alpha" in kind.version:
        text = f"is written in {kind.version}, which a release may drop"
        yield Violation(owner, ("apiVersion",), text + (f": {better[0]} is stable" if better else ""))


def _is_stable_elsewhere(rule: Rule, context: LintContext) -> bool:
    """Whether everything that a rule for unstable versions matches also has a stable version."""
    matched = {type_ for type_, _ in context.matched([rule])}
    resources = context.cluster.resources
    return bool(matched) and all(
        any(
            not _UNSTABLE.fullmatch(other.version)
            for other in resources.equivalents(type_.resource, type_.subresource)
        )
        for type_ in matched
    )


UNSTABLE = LintRule(
    name="unstable-version",
    severity=Severity.WARNING,
    explanation="Kubernetes drops alpha and beta versions, and rules that name only those then match nothing.",
    fix="Name the stable version, in addition to the others if necessary.",
    check=_find_unstable_versions,
)

_VERBS = ("create", "update", "patch", "delete", "deletecollection")
_ADMINISTRATORS = frozenset({("Group", "system:masters"), ("Group", "kubeadm:cluster-admins")})
"""Subjects that may do everything in any cluster."""
_SYSTEM_PREFIX = "system:"
"""The prefix of Kubernetes' own roles and users."""
_ANONYMOUS = UserInfo("")


def _find_configuration_writers(context: LintContext) -> Iterator[Violation]:
    owner = next(context.owners, None)
    if owner is None:
        return
    cluster = context.cluster
    roles = cluster_roles(cluster.list(rbac.RBAC_GROUP, "clusterroles"))
    for document in cluster.list(rbac.RBAC_GROUP, "clusterrolebindings"):
        binding = read_binding(document)
        unexpected = [subject for subject in binding.subjects or () if not _is_expected(subject, binding)]
        if unexpected and (written := _first_write(binding, roles)):
            whom = ", ".join(f"{subject.kind} {go_quoted(subject.name)}" for subject in unexpected)
            text = (
                f"ClusterRoleBinding {go_quoted(binding.metadata.name)} of {go_quoted(binding.role_ref.name)}"
                f" lets {whom} {written[0]} {written[1]}, and thereby turn admission off"
            )
            yield Violation(owner, ("metadata", "name"), text)


def _first_write(binding: RoleBinding, roles: Roles) -> tuple[str, str] | None:
    """The first verb and resource by which a role can change admission; None if there is none."""
    name = binding.role_ref.name
    rules = roles.rules(name) or ()
    for kind, verb in itertools.product(ADMISSION_RESOURCES, _VERBS):
        if name == "cluster-admin" or any(_allows(rule, verb, kind) for rule in rules):
            return verb, kind
    return None


def _allows(rule: CompiledPolicyRule, verb: str, kind: str) -> bool:
    """Whether a rule allows a verb on some object of a resource."""
    attributes = AuthorizationAttributes(user=_ANONYMOUS, verb=verb, group=ADMISSION_GROUP, resource=kind)
    return any(rule.allows(msgspec.structs.replace(attributes, name=name)) for name in rule.names or ("",))


def _is_expected(context: RbacSubject, binding: RoleBinding) -> bool:
    """Whether a subject is an administrator, or a Kubernetes component with its own role."""
    if (context.kind, context.name) in _ADMINISTRATORS:
        return True
    is_part = context.namespace == "kube-system" or (
        context.kind == "User" and context.name.startswith(_SYSTEM_PREFIX)
    )
    return is_part and binding.role_ref.name.startswith(_SYSTEM_PREFIX)


WRITERS = LintRule(
    name="configurations-writable",
    severity=Severity.WARNING,
    explanation="A user who can change webhook configurations or policies can turn them off, or read every object.",
    fix="Remove the group admissionregistration.k8s.io, or wildcards that include it, from the ClusterRole.",
    check=_find_configuration_writers,
)

_PATCH = pattern(r"JSONPatch\s*\{(?P<fields>[^{}]*)", re.DOTALL)
_FIELD = pattern(r"\b(op|path)\s*:\s*(?:\"([^\"]*)\"|'([^']*)')")
_ARRAYS = (
    "args|command|containers|env|envFrom|ephemeralContainers|finalizers|imagePullSecrets|initContainers"
    "|ownerReferences|ports|readinessGates|rules|subjects|tolerations|topologySpreadConstraints|volumeMounts|volumes"
)
_WHOLE_COLLECTION = pattern(rf"/(?:.*/)?(?:{_ARRAYS}|labels|annotations)")
_LABEL = pattern(r"/(?:.*/)?labels/[^/]+")
_GUARD = pattern(r"\bhas\(|\.\?|\bin\s+object\b")
"""How an expression tests whether a field exists before it adds it."""


def _find_overwrites(context: LintContext) -> Iterator[Violation]:
    for policy in context.configurations.mutating_policies:
        if not isinstance(policy.spec, MutatingAdmissionPolicySpec):
            continue
        conditions = " ".join(condition.expression for condition in policy.spec.match_conditions)
        for index, mutation in enumerate(policy.spec.mutations):
            if mutation.json_patch is None:
                continue
            written = mutation.json_patch.expression
            for found in _PATCH.finditer(written):
                fields = {
                    name: double_quoted or single_quoted
                    for name, double_quoted, single_quoted in _FIELD.findall(found["fields"])
                }
                is_guarded = bool(_GUARD.search(written) or _GUARD.search(conditions))
                if text := _overwrite_problem(
                    fields.get("op", ""), fields.get("path", ""), is_guarded=is_guarded
                ):
                    path = ("spec", "mutations", index, "jsonPatch", "expression")
                    yield Violation(policy, path, text)


def _overwrite_problem(operation: str, path: str, *, is_guarded: bool) -> str:
    if _WHOLE_COLLECTION.fullmatch(path) and (
        operation == "replace" or (operation == "add" and not is_guarded)
    ):
        return f"{operation} of {path} drops the previous values"
    if _LABEL.fullmatch(path) and operation in {"replace", "remove"}:
        return f"{operation} of {path} changes a label that selectors may use"
    return ""


OVERWRITES = LintRule(
    name="overwrites-arrays-or-labels",
    severity=Severity.WARNING,
    explanation="A patch of a whole array or map drops entries of others, and selectors depend on labels.",
    fix="Add single items or pairs, by /- or by key, if they do not exist yet.",
    check=_find_overwrites,
)


def _find_namespace_dependencies(context: LintContext) -> Iterator[Violation]:
    for binding in context.bindings:
        ref = binding.spec.param_ref
        if ref is not None and ref.namespace:
            text = f"decides for other namespaces with objects in namespace {ref.namespace}"
            yield Violation(binding, ("spec", "paramRef", "namespace"), text)
    for hook in context.hooks:
        backend = hook.backend
        if backend is None or not hook.fails_closed or context.denied_starts(hook, backend):
            continue  # the rule "deadlock" reports that it cannot start again, which is worse
        if context.selects(hook, backend.namespace):
            text = (
                f"checks changes in namespace {backend.namespace}, where its own server runs:"
                " while that is down, nobody can fix it there"
            )
            yield hook.violation(text, "namespaceSelector")


OTHER_NAMESPACES = LintRule(
    name="depends-on-namespace",
    severity=Severity.INFO,
    explanation="Users with write access there decide for everybody; deleting objects there affects all namespaces.",
    fix="Protect that namespace, and exclude it by namespaceSelector if the server of the webhook runs in it.",
    check=_find_namespace_dependencies,
)
