"""Rule checks: find what in a rule cannot match any request.

The API server accepts most such rules silently, and they never match. A check knows the built-in kinds and those of
CustomResourceDefinitions. Only a group with a dot in its name can get more kinds from a CustomResourceDefinition
(``validateCustomResourceDefinitionSpec`` in
``k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go``), so a rule for any other group
certainly matches nothing if the group has no such kind.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Collection, Iterable, Iterator

from pratique.admission.rules import OPERATIONS, SCOPES, Rule
from pratique.admission.subresources import operation_on
from pratique.apimachinery.kinds import ResourceType
from pratique.apimachinery.statuses import go_quoted
from pratique.cluster.api_resources import ApiResources, built_in_resources

_SIMILARITY_CUTOFF = 0.7
"""What difflib calls similar enough: "pod" is like "pods", "app" like "apps", and "CREAT" like "CREATE"."""
_RESOURCE_OPERATIONS = frozenset({"CREATE", "UPDATE", "DELETE"})
_MAX_LISTED_NAMES = 12
"""Names that a message lists before it leaves out the rest."""


@dataclasses.dataclass(frozen=True, slots=True)
class UnmatchableField:
    """One thing in a rule that matches nothing."""

    field: str
    """The field of the rule as it is written, such as ``apiGroups``."""
    index: int | None
    """The entry of the field; None for all of it."""
    text: str
    """What is wrong, and what is probably meant."""
    certain: bool
    """False where a cluster may have more kinds, or be of an older release."""


class RuleChecker:
    """Finds futile rules, given the kinds of a cluster."""

    def __init__(self, resources: ApiResources) -> None:
        """Go by the kinds that are known."""
        self._types = tuple(each for each in resources if each.served)
        self._by_resource: dict[str, list[ResourceType]] = {}
        self._by_subresource: dict[str, list[ResourceType]] = {}
        for each in self._types:
            self._by_resource.setdefault(each.resource.resource, []).append(each)
            self._by_subresource.setdefault(each.subresource, []).append(each)
        self._groups = frozenset(each.resource.group for each in self._types)
        self._matched: dict[Rule, frozenset[tuple[ResourceType, str]]] = {}
        self._found: dict[Rule, tuple[UnmatchableField, ...]] = {}

    def find(self, rule: Rule) -> tuple[UnmatchableField, ...]:
        """Find all that matches nothing, the most telling first; nothing for a rule that makes sense."""
        found = self._found.get(rule)
        if found is None:
            found = self._found[rule] = tuple(self._find(rule))
        return found

    def matched(self, rule: Rule) -> frozenset[tuple[ResourceType, str]]:
        """Everything that a rule matches: kinds and, with each, an operation; removed kinds are among them."""
        if rule not in self._matched:
            self._matched[rule] = self._match(rule)
        return self._matched[rule]

    def _match(self, rule: Rule) -> frozenset[tuple[ResourceType, str]]:
        return frozenset(
            (each, operation)
            for written in rule.resources
            for each in self._named(written)
            if _includes(each.resource.group, rule.api_groups)
            and _includes(each.resource.version, rule.api_versions)
            and _in_scope(each, rule.scope)
            for operation in operations_of(each)
            if _includes(operation, rule.operations)
        )

    def _find(self, rule: Rule) -> Iterator[UnmatchableField]:
        unknown = list(self._unknown(rule))
        yield from unknown
        if any(one.certain and one.index is None for one in unknown):
            return
        odd = {(one.field, one.index) for one in unknown}
        for index, written in enumerate(rule.resources):
            if ("resources", index) not in odd:
                yield from self._of_resource(rule, index, written)
        matched = self.matched(rule)
        if matched and all(each.removed_in is not None for each, _ in matched):
            release = max((each.removed_in or "" for each, _ in matched), key=_release_numbers)
            yield UnmatchableField(
                "apiVersions", None, f"Kubernetes has none of it since {release}", certain=False
            )
        elif matched and all(group in self._groups for group in rule.api_groups):
            yield from self._idle_entries(rule, matched, odd)

    def _unknown(self, rule: Rule) -> Iterator[UnmatchableField]:
        """What is no word of the language, or names nothing at all."""
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

    def _of_resource(self, rule: Rule, index: int, written: str) -> Iterator[UnmatchableField]:
        """Go from the name of a resource to group, version, scope and operation, until nothing is left."""
        named = self._named(written)
        if not any(group == "*" or group in self._groups for group in rule.api_groups):
            return  # the groups are what is not known, and that has been told
        if not named:
            yield self._futile(rule, index, f"no kind is called {go_quoted(written)}{self._hint(written)}")
            return
        of_group = [each for each in named if _includes(each.resource.group, rule.api_groups)]
        if not of_group:
            groups = _joined_names(_group_text(each.resource.group) for each in named)
            written_groups = _joined_names(map(_group_text, rule.api_groups))
            text = f"{go_quoted(written)} is not of API group {written_groups}, but of {groups}"
            yield self._futile(rule, index, text)
            return
        of_version = [each for each in of_group if _includes(each.resource.version, rule.api_versions)]
        if not of_version:
            versions = _joined_names(each.resource.version for each in of_group)
            text = f"{go_quoted(written)} has no version {_joined_names(rule.api_versions)}, but {versions}"
            yield UnmatchableField("apiVersions", None, text, certain=self._is_closed(rule))
            return
        in_scope = [each for each in of_version if _in_scope(each, rule.scope)]
        if not in_scope:
            what = "namespaced" if of_version[0].namespaced else "cluster-scoped"
            text = f"scope {rule.scope} leaves out {go_quoted(written)}, which is {what}"
            yield UnmatchableField("scope", None, text, certain=self._is_closed(rule))
            return
        known = set(rule.operations) & set(OPERATIONS)
        if known and not any(_includes(one, known) for each in in_scope for one in operations_of(each)):
            allowed = _joined_names(sorted({one for each in in_scope for one in operations_of(each)}))
            how = f"takes {allowed}" if allowed else "is only read, which nothing is asked about"
            text = f"{go_quoted(written)} {how}, not {_joined_names(rule.operations)}"
            yield UnmatchableField("operations", None, text, certain=self._is_closed(rule))

    def _idle_entries(
        self,
        rule: Rule,
        matched: Collection[tuple[ResourceType, str]],
        odd: Collection[tuple[str, int | None]],
    ) -> Iterator[UnmatchableField]:
        """Entries beside others that do match: they add nothing."""
        used: dict[str, set[str]] = {
            "operations": {operation for _, operation in matched},
            "apiGroups": {each.resource.group for each, _ in matched},
            "apiVersions": {each.resource.version for each, _ in matched},
        }
        for field, entries in (
            ("operations", rule.operations),
            ("apiGroups", rule.api_groups),
            ("apiVersions", rule.api_versions),
        ):
            for index, entry in enumerate(entries):
                if entry != "*" and entry not in used[field] and (field, index) not in odd:
                    text = f"{go_quoted(entry)} matches none of {_joined_names(rule.resources)}"
                    yield UnmatchableField(field, index, text, certain=False)

    def _named(self, written: str) -> list[ResourceType]:
        """All types that an entry of ``resources`` names, of any group."""
        resource, _, subresource = written.partition("/")
        if resource == "*":
            return list(self._types) if subresource == "*" else self._by_subresource.get(subresource, [])
        return [
            each for each in self._by_resource.get(resource, ()) if subresource in {"*", each.subresource}
        ]

    def _futile(self, rule: Rule, index: int, text: str) -> UnmatchableField:
        return UnmatchableField("resources", index, text, certain=self._is_closed(rule))

    def _is_closed(self, rule: Rule) -> bool:
        """Whether no definition can add a kind to any of the groups."""
        return all(group != "*" and "." not in group for group in rule.api_groups)

    def _hint(self, written: str) -> str:
        resource, slash, subresource = written.partition("/")
        if slash and resource in self._by_resource:
            there = sorted({each.subresource for each in self._by_resource[resource]} - {""})
            return _suggestion(subresource, there) or (f"; there are {_joined_names(there)}" if there else "")
        kinds = {
            each.kind.kind.lower(): each.resource.resource for each in self._types if not each.subresource
        }
        if found := kinds.get(resource.lower()):
            return f"; did you mean {go_quoted(found + slash + subresource)}?"
        close = difflib.get_close_matches(
            resource.lower(), sorted(self._by_resource), n=1, cutoff=_SIMILARITY_CUTOFF
        )
        return f"; did you mean {go_quoted(close[0] + slash + subresource)}?" if close else ""


def operations_of(type_: ResourceType) -> Collection[str]:
    """The operations by which admission hears of a collection or subresource."""
    if not type_.subresource:
        return _RESOURCE_OPERATIONS
    operation = operation_on(type_)
    return () if operation is None else (str(operation),)


@functools.cache
def built_in_rule_checker() -> RuleChecker:
    """By the kinds of Kubernetes itself."""
    return RuleChecker(built_in_resources())


def _includes(value: str, entries: Collection[str]) -> bool:
    return "*" in entries or value in entries


def _in_scope(type_: ResourceType, scope: str | None) -> bool:
    return scope in {None, "*"} or (scope == "Namespaced") is type_.namespaced


def _suggestion(written: str, known: Iterable[str]) -> str:
    lower = {each.lower(): each for each in sorted(known)}
    close = difflib.get_close_matches(written.lower(), lower, n=1, cutoff=_SIMILARITY_CUTOFF)
    return f"; did you mean {go_quoted(lower[close[0]])}?" if close else ""


def _joined_names(texts: Iterable[str]) -> str:
    names = list(dict.fromkeys(texts))
    more = f" and {len(names) - _MAX_LISTED_NAMES} more" if len(names) > _MAX_LISTED_NAMES else ""
    return ", ".join(names[:_MAX_LISTED_NAMES]) + more


def _group_text(group: str) -> str:
    return group or '""'


def _release_numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))
