"""Rule checks: find what in a rule cannot match any request.

The API server accepts most such rules silently, and they never match. A check knows the built-in kinds and those of
CustomResourceDefinitions. Only a group with a dot in its name can get more kinds from a CustomResourceDefinition
(``validateCustomResourceDefinitionSpec`` in
``k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go``), so a rule for any other group
certainly matches nothing if the group has no such kind.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Collection, Iterable, Iterator

import msgspec

from pratique.admission.rules import OPERATIONS, SCOPES, Rule
from pratique.admission.subresources import operation_on
from pratique.apimachinery.kinds import ResourceType
from pratique.apimachinery.statuses import go_quoted
from pratique.cluster.api_resources import ApiResources, built_in_resources

_SIMILARITY_CUTOFF = 0.7
"""The similarity from which difflib suggests a name: "pods" for "pod", "apps" for "app", "CREATE" for "CREAT"."""
_RESOURCE_OPERATIONS = frozenset({"CREATE", "UPDATE", "DELETE"})
_MAX_LISTED_NAMES = 12
"""The most names that a message lists."""


class UnmatchableField(msgspec.Struct, frozen=True):
    """A part of a rule that matches nothing."""

    field: str
    """The field of the rule, such as ``apiGroups``."""
    index: int | None
    """The index in the field; None for the whole field."""
    text: str
    """What is wrong, and what was probably meant."""
    certain: bool
    """False if a cluster can have more kinds, or can be of an older release."""


class RuleChecker:
    """Finds the parts of rules that match nothing, for the kinds of a cluster."""

    def __init__(self, resources: ApiResources) -> None:
        """Check rules against ``resources``."""
        self._types = tuple(type_ for type_ in resources if type_.served)
        self._by_resource: dict[str, list[ResourceType]] = {}
        self._by_subresource: dict[str, list[ResourceType]] = {}
        for type_ in self._types:
            self._by_resource.setdefault(type_.resource.resource, []).append(type_)
            self._by_subresource.setdefault(type_.subresource, []).append(type_)
        self._groups = frozenset(type_.resource.group for type_ in self._types)
        self._matched: dict[Rule, frozenset[tuple[ResourceType, str]]] = {}
        self._found: dict[Rule, tuple[UnmatchableField, ...]] = {}

    def find(self, rule: Rule) -> tuple[UnmatchableField, ...]:
        """Return the parts of a rule that match nothing, the most important first."""
        found = self._found.get(rule)
        if found is None:
            found = self._found[rule] = tuple(self._find(rule))
        return found

    def matched(self, rule: Rule) -> frozenset[tuple[ResourceType, str]]:
        """Return all pairs of kind and operation that a rule matches, including removed kinds."""
        if rule not in self._matched:
            self._matched[rule] = self._match(rule)
        return self._matched[rule]

    def _match(self, rule: Rule) -> frozenset[tuple[ResourceType, str]]:
        return frozenset(
            (type_, operation)
            for entry in rule.resources
            for type_ in self._types_named(entry)
            if _includes(type_.resource.group, rule.api_groups)
            and _includes(type_.resource.version, rule.api_versions)
            and _in_scope(type_, rule.scope)
            for operation in operations_of(type_)
            if _includes(operation, rule.operations)
        )

    def _find(self, rule: Rule) -> Iterator[UnmatchableField]:
        unknown = list(self._unknown(rule))
        yield from unknown
        if any(problem.certain and problem.index is None for problem in unknown):
            return
        reported = {(problem.field, problem.index) for problem in unknown}
        for index, entry in enumerate(rule.resources):
            if ("resources", index) not in reported:
                yield from self._check_resource(rule, index, entry)
        matched = self.matched(rule)
        if matched and all(type_.removed_in is not None for type_, _ in matched):
            release = max((type_.removed_in or "" for type_, _ in matched), key=_release_numbers)
            yield UnmatchableField(
                "apiVersions", None, f"Kubernetes has none of it since {release}", certain=False
            )
        elif matched and all(group in self._groups for group in rule.api_groups):
            yield from self._idle_entries(rule, matched, reported)

    def _unknown(self, rule: Rule) -> Iterator[UnmatchableField]:
        """Find empty fields, and unknown operations, scopes and groups."""
        for field, entries in (
            ("operations", rule.operations),
            ("apiGroups", rule.api_groups),
            ("apiVersions", rule.api_versions),
            ("resources", rule.resources),
        ):
            if not entries:
                yield UnmatchableField(field, None, f"{field} is empty: nothing matches", certain=True)
        for index, operation in enumerate(rule.operations):
            if operation not in OPERATIONS:
                text = f"there is no operation {go_quoted(operation)}{_suggestion(operation, OPERATIONS)}"
                yield UnmatchableField("operations", index, text, certain=True)
        if rule.scope is not None and rule.scope not in SCOPES:
            text = f"there is no scope {go_quoted(rule.scope)}{_suggestion(rule.scope, SCOPES)}"
            yield UnmatchableField("scope", None, text, certain=True)
        for index, group in enumerate(rule.api_groups):
            if group != "*" and group not in self._groups:
                text = f"no kind is of API group {go_quoted(group)}"
                yield UnmatchableField(
                    "apiGroups", index, text + self._group_hint(group), certain="." not in group
                )

    def _group_hint(self, group: str) -> str:
        if group in {"core", "v1"}:
            return '; the core group is written ""'
        meant = _suggestion(group, self._groups - {""})
        if meant or "." not in group:
            return meant
        return "; if its CustomResourceDefinition exists, give it by --cluster"

    def _check_resource(self, rule: Rule, index: int, entry: str) -> Iterator[UnmatchableField]:
        """Filter the kinds with a resource's name by group, version, scope and operation, until none is left."""
        named = self._types_named(entry)
        if not any(group == "*" or group in self._groups for group in rule.api_groups):
            return  # the groups are unknown, which is reported already
        if not named:
            yield self._resource_problem(
                rule, index, f"no kind is called {go_quoted(entry)}{self._resource_hint(entry)}"
            )
            return
        of_group = [type_ for type_ in named if _includes(type_.resource.group, rule.api_groups)]
        if not of_group:
            groups = _joined_names(_group_text(type_.resource.group) for type_ in named)
            rule_groups = _joined_names(map(_group_text, rule.api_groups))
            text = f"{go_quoted(entry)} is not of API group {rule_groups}, but of {groups}"
            yield self._resource_problem(rule, index, text)
            return
        of_version = [type_ for type_ in of_group if _includes(type_.resource.version, rule.api_versions)]
        if not of_version:
            versions = _joined_names(type_.resource.version for type_ in of_group)
            text = f"{go_quoted(entry)} has no version {_joined_names(rule.api_versions)}, but {versions}"
            yield UnmatchableField("apiVersions", None, text, certain=self._is_closed(rule))
            return
        in_scope = [type_ for type_ in of_version if _in_scope(type_, rule.scope)]
        if not in_scope:
            what = "namespaced" if of_version[0].namespaced else "cluster-scoped"
            text = f"scope {rule.scope} leaves out {go_quoted(entry)}, which is {what}"
            yield UnmatchableField("scope", None, text, certain=self._is_closed(rule))
            return
        known = set(rule.operations) & set(OPERATIONS)
        if known and not any(
            _includes(operation, known) for type_ in in_scope for operation in operations_of(type_)
        ):
            allowed = _joined_names(
                sorted({operation for type_ in in_scope for operation in operations_of(type_)})
            )
            how = f"takes {allowed}" if allowed else "can only be read, and reads are never reviewed"
            text = f"{go_quoted(entry)} {how}, not {_joined_names(rule.operations)}"
            yield UnmatchableField("operations", None, text, certain=self._is_closed(rule))

    def _idle_entries(
        self,
        rule: Rule,
        matched: Collection[tuple[ResourceType, str]],
        reported: Collection[tuple[str, int | None]],
    ) -> Iterator[UnmatchableField]:
        """Find entries that add nothing to the others."""
        used: dict[str, set[str]] = {
            "operations": {operation for _, operation in matched},
            "apiGroups": {type_.resource.group for type_, _ in matched},
            "apiVersions": {type_.resource.version for type_, _ in matched},
        }
        for field, entries in (
            ("operations", rule.operations),
            ("apiGroups", rule.api_groups),
            ("apiVersions", rule.api_versions),
        ):
            for index, entry in enumerate(entries):
                if entry != "*" and entry not in used[field] and (field, index) not in reported:
                    text = f"{go_quoted(entry)} matches none of {_joined_names(rule.resources)}"
                    yield UnmatchableField(field, index, text, certain=False)

    def _types_named(self, entry: str) -> list[ResourceType]:
        """Return all types of any group that an entry of ``resources`` names."""
        resource, _, subresource = entry.partition("/")
        if resource == "*":
            return list(self._types) if subresource == "*" else self._by_subresource.get(subresource, [])
        return [
            type_ for type_ in self._by_resource.get(resource, ()) if subresource in {"*", type_.subresource}
        ]

    def _resource_problem(self, rule: Rule, index: int, text: str) -> UnmatchableField:
        return UnmatchableField("resources", index, text, certain=self._is_closed(rule))

    def _is_closed(self, rule: Rule) -> bool:
        """Tell whether no CustomResourceDefinition can add a kind to the rule's groups."""
        return all(group != "*" and "." not in group for group in rule.api_groups)

    def _resource_hint(self, entry: str) -> str:
        resource, slash, subresource = entry.partition("/")
        if slash and resource in self._by_resource:
            there = sorted({type_.subresource for type_ in self._by_resource[resource]} - {""})
            return _suggestion(subresource, there) or (f"; there are {_joined_names(there)}" if there else "")
        kinds = {
            type_.kind.kind.lower(): type_.resource.resource for type_ in self._types if not type_.subresource
        }
        if found := kinds.get(resource.lower()):
            return f"; did you mean {go_quoted(found + slash + subresource)}?"
        close = difflib.get_close_matches(
            resource.lower(), sorted(self._by_resource), n=1, cutoff=_SIMILARITY_CUTOFF
        )
        return f"; did you mean {go_quoted(close[0] + slash + subresource)}?" if close else ""


def operations_of(type_: ResourceType) -> Collection[str]:
    """Return the operations on a resource or subresource that admission reviews."""
    if not type_.subresource:
        return _RESOURCE_OPERATIONS
    operation = operation_on(type_)
    return () if operation is None else (str(operation),)


@functools.cache
def built_in_rule_checker() -> RuleChecker:
    """Return the checker for Kubernetes' own kinds."""
    return RuleChecker(built_in_resources())


def _includes(value: str, entries: Collection[str]) -> bool:
    return "*" in entries or value in entries


def _in_scope(type_: ResourceType, scope: str | None) -> bool:
    return scope in {None, "*"} or (scope == "Namespaced") is type_.namespaced


def _suggestion(entry: str, known: Iterable[str]) -> str:
    lower = {name.lower(): name for name in sorted(known)}
    close = difflib.get_close_matches(entry.lower(), lower, n=1, cutoff=_SIMILARITY_CUTOFF)
    return f"; did you mean {go_quoted(lower[close[0]])}?" if close else ""


def _joined_names(texts: Iterable[str]) -> str:
    names = list(dict.fromkeys(texts))
    more = f" and {len(names) - _MAX_LISTED_NAMES} more" if len(names) > _MAX_LISTED_NAMES else ""
    return ", ".join(names[:_MAX_LISTED_NAMES]) + more


def _group_text(group: str) -> str:
    return group or '""'


def _release_numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))
