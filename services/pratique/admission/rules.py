"""Rules: which requests a controller, webhook or policy wants to see.

The matching is that of ``k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules/rules.go``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery.kinds import GroupVersionResource
from pratique.apimachinery.statuses import qualified_resource

if TYPE_CHECKING:
    from typing import TypeAlias


_RequestKey: TypeAlias = "tuple[str, GroupVersionResource, str, bool]"
"""What rules know of a request: operation, resource, subresource, and whether it is namespaced."""


class Rule(msgspec.Struct, frozen=True, rename="camel"):
    """One ``RuleWithOperations``. Empty lists match nothing; ``scope`` None means every scope."""

    operations: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    scope: str | None = None


_MAX_REMEMBERED = 200
"""Kinds of requests that a rule set remembers: about as many as Kubernetes has kinds."""
_MAX_REMEMBERED_CHARACTERS = 200
"""Characters in which such a request names what it is about; those of Kubernetes take fewer than 100."""

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
    """Write a rule in one line: ``rule("pods")`` is every CREATE and UPDATE of core pods.

    A resource is written ``pods``, ``pods/status``, ``pods/*`` (pods and all their subresources),
    ``*/status``, ``*`` (everything but subresources) or ``*/*``. ``scope`` is ``Cluster``, ``Namespaced``
    or ``*``.

    Raises:
        ValueError: something in it is certain to match nothing; the text says what was probably meant. A custom
            resource is let be: its definition may exist. Where you know better, write a :class:`Rule` yourself.
    """
    for field, entries in (("operations", operations), ("versions", versions)):
        if isinstance(entries, str):
            raise ValueError(f'rule: {field} is a tuple of strings, such as ("{entries}",), not a string')  # noqa: TRY004 - as for all that is wrong with a rule
    written = Rule(operations, (group,), versions, resources, scope)
    from pratique.admission.rule_checks import built_in_rule_checker  # noqa: PLC0415 - which knows rules

    if wrong := [one.text for one in built_in_rule_checker().find(written) if one.certain]:
        raise ValueError(f"rule: {'; '.join(wrong)}")
    return written


def matches(
    rule: Rule, operation: str, resource: GroupVersionResource, subresource: str, namespace: str
) -> bool:
    """Tell whether one rule wants to see a request; for many requests, compile it once instead."""
    return compile_rules((rule,)).matches_request(operation, resource, subresource, namespace)


def mismatch(rules: Iterable[Rule], review: Review) -> str:
    """Say why no rule wants to see the review; empty where one does."""
    return compile_rules(rules).mismatch(review)


def compile_rules(rules: Iterable[Rule]) -> RuleSet:
    """Prepare rules for being matched against many requests."""
    kept = tuple(rules)
    return RuleSet(kept, tuple(_compile_rule(rule) for rule in kept))


@dataclasses.dataclass(frozen=True, slots=True)
class _CompiledRule:
    """A rule as sets. None in place of a set means that everything is in it."""

    operations: frozenset[str] | None
    groups: frozenset[str] | None
    versions: frozenset[str] | None
    resources: frozenset[tuple[str, str]]
    """Pairs of resource and subresource, each of which may be ``*``."""
    namespaced: frozenset[bool]
    """Whether the object may be namespaced, cluster-scoped, both or (unknown scope) neither."""

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
    """The rules of one controller, webhook or policy: a request is wanted where any of them matches."""

    rules: tuple[Rule, ...]
    """As they were written."""
    _digests: tuple[_CompiledRule, ...]
    _mismatches: dict[_RequestKey, str] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """What was said of requests: the same few kinds of them come again and again."""

    @property
    def remembered(self) -> int:
        """How many kinds of requests are remembered."""
        return len(self._mismatches)

    def matches(self, review: Review) -> bool:
        """Tell whether any rule wants to see the review."""
        return not self.mismatch(review)

    def matches_request(
        self, operation: str, resource: GroupVersionResource, subresource: str, namespace: str
    ) -> bool:
        """Tell whether any rule wants to see such a request."""
        return any(digest.wants(operation, resource, subresource, namespace) for digest in self._digests)

    def first_wanted(
        self, operation: str, resources: Iterable[GroupVersionResource], subresource: str, namespace: str
    ) -> GroupVersionResource | None:
        """Of several resources, the one that the earliest rule wants to see such a request for; None for none.

        These are the equivalents of the one asked for; all else stays as in the request.
        """
        candidates = tuple(resources)
        for digest in self._digests:
            for resource in candidates:
                if digest.wants(operation, resource, subresource, namespace):
                    return resource
        return None

    def mismatch(self, review: Review) -> str:
        """Say why no rule wants to see the review, by the rule that comes nearest; empty where one does."""
        if not self.rules:
            return "there are no rules"
        namespaced = _is_namespaced(review.resource, review.namespace)
        asked = (review.operation, review.resource, review.subresource, namespaced)
        found = self._mismatches.get(asked)
        return self._remembered(asked, self._mismatch(review)) if found is None else found

    def _remembered(self, asked: _RequestKey, mismatch: str) -> str:
        """Requests choose what they are about: neither what is kept of one nor of all may grow without end."""
        _, resource, subresource, _ = asked
        texts = (resource.group, resource.version, resource.resource, subresource)
        if sum(map(len, texts)) <= _MAX_REMEMBERED_CHARACTERS:
            if len(self._mismatches) >= _MAX_REMEMBERED:
                self._mismatches.clear()
            self._mismatches[asked] = mismatch
        return mismatch

    def _mismatch(self, review: Review) -> str:
        obstacles = (_obstacles(*each, review) for each in zip(self.rules, self._digests, strict=True))
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
    """False for Namespaces, although their requests carry a namespace: their own name."""
    return namespace != "" and not (
        resource.resource == "namespaces" and resource.group == "" and resource.version == "v1"
    )


def _obstacles(rule: Rule, digest: _CompiledRule, review: Review) -> list[str]:
    """The parts of a rule that do not match, in the order in which a person looks at them."""
    resource = review.resource
    found = [
        _obstacle(label, entries, value)
        for label, entries, allowed, value in (
            ("operations", rule.operations, digest.operations, str(review.operation)),
            ("apiGroups", rule.api_groups, digest.groups, resource.group),
            ("apiVersions", rule.api_versions, digest.versions, resource.version),
        )
        if allowed is not None and value not in allowed
    ]
    if digest.resources.isdisjoint(_resource_pairs(resource.resource, review.subresource)):
        asked = f"{resource.resource}/{review.subresource}" if review.subresource else resource.resource
        found.append(_obstacle("resources", rule.resources, asked))
    namespaced = _is_namespaced(resource, review.namespace)
    if namespaced not in digest.namespaced:
        what = "namespaced" if namespaced else "cluster-scoped"
        name = qualified_resource(resource.group, resource.resource)
        found.append(f"scope {rule.scope} does not include {what} {name}")
    return found


def _obstacle(label: str, entries: tuple[str, ...], value: str) -> str:
    return f"{label} [{', '.join(map(_group_text, entries))}] do not include {_group_text(value)}"


def _group_text(text: str) -> str:
    """The core group is written as it is in a rule."""
    return text or '""'
