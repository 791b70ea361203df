"""Rules: which requests a controller, webhook or policy handles.

Source: ``k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules/rules.go``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery.kinds import GroupVersionResource
from pratique.apimachinery.statuses import qualified_resource

_RequestKey: TypeAlias = tuple[str, GroupVersionResource, str, bool]
"""What rules depend on: operation, resource, subresource, and whether the request is namespaced."""


class Rule(msgspec.Struct, frozen=True, rename="camel"):
    """A ``RuleWithOperations``. Empty lists match nothing; ``scope`` None means every scope."""

    operations: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    scope: str | None = None


_MAX_REMEMBERED = 200
"""The most kinds of requests that a rule set caches: about as many as Kubernetes has kinds."""
_MAX_REMEMBERED_CHARACTERS = 200
"""The longest names of a request that is cached, in characters; Kubernetes' own take fewer than 100."""

OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
SCOPES = ("*", "Cluster", "Namespaced")

EVERYTHING = Rule(("*",), ("*",), ("*",), ("*/*",), "*")
"""Matches every request."""


def rule(
    *resources: str,
    operations: tuple[str, ...] = ("CREATE", "UPDATE"),
    group: str = "",
    versions: tuple[str, ...] = ("*",),
    scope: str = "*",
) -> Rule:
    """Create a rule in one line: ``rule("pods")`` matches every CREATE and UPDATE of core Pods.

    A resource is written ``pods``, ``pods/status``, ``pods/*`` (pods and all their subresources),
    ``*/status``, ``*`` (everything but subresources) or ``*/*``. ``scope`` is ``Cluster``, ``Namespaced``
    or ``*``.

    Raises:
        ValueError: part of the rule certainly matches nothing; the text suggests what was probably meant. Custom
            resources are accepted, because their definitions may exist. To skip the check, create a :class:`Rule`.
    """
    for field, entries in (("operations", operations), ("versions", versions)):
        if isinstance(entries, str):
            raise ValueError(f'rule: {field} is a tuple of strings, such as ("{entries}",), not a string')  # noqa: TRY004 - every error in a rule is a ValueError
    created = Rule(operations, (group,), versions, resources, scope)
    from pratique.admission.rule_checks import built_in_rule_checker  # noqa: PLC0415 - it imports this module

    if wrong := [problem.text for problem in built_in_rule_checker().find(created) if problem.certain]:
        raise ValueError(f"rule: {'; '.join(wrong)}")
    return created


def matches(
    rule: Rule, operation: str, resource: GroupVersionResource, subresource: str, namespace: str
) -> bool:
    """Tell whether one rule matches a request. For many requests, compile the rule once instead."""
    return compile_rules((rule,)).matches_request(operation, resource, subresource, namespace)


def mismatch(rules: Iterable[Rule], review: Review) -> str:
    """Return why no rule matches the review; empty if one does."""
    return compile_rules(rules).mismatch(review)


def compile_rules(rules: Iterable[Rule]) -> RuleSet:
    """Compile rules for matching many requests."""
    originals = tuple(rules)
    return RuleSet(originals, tuple(_compile_rule(rule) for rule in originals))


class _CompiledRule(msgspec.Struct, frozen=True):
    """A rule as sets. None in place of a set means that it contains everything."""

    operations: frozenset[str] | None
    groups: frozenset[str] | None
    versions: frozenset[str] | None
    resources: frozenset[tuple[str, str]]
    """Pairs of resource and subresource; either can be ``*``."""
    namespaced: frozenset[bool]
    """Whether the object may be namespaced, cluster-scoped or both; empty for an unknown scope."""

    def wants(self, operation: str, resource: GroupVersionResource, subresource: str, namespace: str) -> bool:
        return (
            _is_namespaced(resource, namespace) in self.namespaced
            and (self.operations is None or operation in self.operations)
            and (self.groups is None or resource.group in self.groups)
            and (self.versions is None or resource.version in self.versions)
            and not self.resources.isdisjoint(_resource_pairs(resource.resource, subresource))
        )


@dataclasses.dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of one controller, webhook or policy. A request matches if any rule does."""

    rules: tuple[Rule, ...]
    """The original rules."""
    _compiled: tuple[_CompiledRule, ...]
    _mismatches: dict[_RequestKey, str] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """A cache: the same few kinds of requests come again and again."""

    @property
    def remembered(self) -> int:
        """The number of cached kinds of requests."""
        return len(self._mismatches)

    def matches(self, review: Review) -> bool:
        """Tell whether any rule matches the review."""
        return not self.mismatch(review)

    def matches_request(
        self, operation: str, resource: GroupVersionResource, subresource: str, namespace: str
    ) -> bool:
        """Tell whether any rule matches the request."""
        return any(compiled.wants(operation, resource, subresource, namespace) for compiled in self._compiled)

    def first_wanted(
        self, operation: str, resources: Iterable[GroupVersionResource], subresource: str, namespace: str
    ) -> GroupVersionResource | None:
        """Return the one of several equivalent resources that the first matching rule matches; None if none does."""
        candidates = tuple(resources)
        for compiled in self._compiled:
            for resource in candidates:
                if compiled.wants(operation, resource, subresource, namespace):
                    return resource
        return None

    def mismatch(self, review: Review) -> str:
        """Return why no rule matches the review, by the rule that comes closest; empty if one does."""
        if not self.rules:
            return "there are no rules"
        namespaced = _is_namespaced(review.resource, review.namespace)
        key = (review.operation, review.resource, review.subresource, namespaced)
        found = self._mismatches.get(key)
        return self._remembered(key, self._mismatch(review)) if found is None else found

    def _remembered(self, key: _RequestKey, mismatch: str) -> str:
        """Cache a mismatch. Clients choose the names in requests, so both their length and number are limited."""
        _, resource, subresource, _ = key
        texts = (resource.group, resource.version, resource.resource, subresource)
        if sum(map(len, texts)) <= _MAX_REMEMBERED_CHARACTERS:
            if len(self._mismatches) >= _MAX_REMEMBERED:
                self._mismatches.clear()
            self._mismatches[key] = mismatch
        return mismatch

    def _mismatch(self, review: Review) -> str:
        obstacles = (_obstacles(*pair, review) for pair in zip(self.rules, self._compiled, strict=True))
        nearest = min(obstacles, key=len)
        return f"no rule matches: {', '.join(nearest)}" if nearest else ""


def _compile_rule(rule: Rule) -> _CompiledRule:
    return _CompiledRule(
        operations=_set_or_all(rule.operations),
        groups=_set_or_all(rule.api_groups),
        versions=_set_or_all(rule.api_versions),
        resources=frozenset(_split_resource(entry) for entry in rule.resources),
        namespaced=_NAMESPACED_BY_SCOPE.get(rule.scope, frozenset()),
    )


_NAMESPACED_BY_SCOPE = {
    None: frozenset({True, False}),
    "*": frozenset({True, False}),
    "Namespaced": frozenset({True}),
    "Cluster": frozenset({False}),
}


def _set_or_all(entries: tuple[str, ...]) -> frozenset[str] | None:
    return None if "*" in entries else frozenset(entries)


def _split_resource(entry: str) -> tuple[str, str]:
    resource, _, subresource = entry.partition("/")
    return resource, subresource


def _resource_pairs(resource: str, subresource: str) -> tuple[tuple[str, str], ...]:
    """The entries that match a request for this resource."""
    return (resource, subresource), ("*", subresource), (resource, "*"), ("*", "*")


def _is_namespaced(resource: GroupVersionResource, namespace: str) -> bool:
    """Tell whether a request is namespaced. Those for Namespaces are not, although they have one: their own name."""
    return namespace != "" and not (
        resource.resource == "namespaces" and resource.group == "" and resource.version == "v1"
    )


def _obstacles(rule: Rule, compiled: _CompiledRule, review: Review) -> list[str]:
    """Return why a rule does not match, field by field."""
    resource = review.resource
    found = [
        _obstacle(label, entries, value)
        for label, entries, allowed, value in (
            ("operations", rule.operations, compiled.operations, str(review.operation)),
            ("apiGroups", rule.api_groups, compiled.groups, resource.group),
            ("apiVersions", rule.api_versions, compiled.versions, resource.version),
        )
        if allowed is not None and value not in allowed
    ]
    if compiled.resources.isdisjoint(_resource_pairs(resource.resource, review.subresource)):
        requested = f"{resource.resource}/{review.subresource}" if review.subresource else resource.resource
        found.append(_obstacle("resources", rule.resources, requested))
    namespaced = _is_namespaced(resource, review.namespace)
    if namespaced not in compiled.namespaced:
        what = "namespaced" if namespaced else "cluster-scoped"
        name = qualified_resource(resource.group, resource.resource)
        found.append(f"scope {rule.scope} does not include {what} {name}")
    return found


def _obstacle(label: str, entries: tuple[str, ...], value: str) -> str:
    return f"{label} [{', '.join(map(_group_text, entries))}] do not include {_group_text(value)}"


def _group_text(text: str) -> str:
    """Write the core group as in a rule."""
    return text or '""'
