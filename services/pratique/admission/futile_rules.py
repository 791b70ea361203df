"""Futile rules: rules of which something matches no request that there is.

The API server takes most of them without a word, and nothing is ever matched. What there is are the kinds of the
catalogue and those of CustomResourceDefinitions. Only a group with a dot in its name can get more kinds from
a definition (``validateCustomResourceDefinitionSpec`` in
``k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go``), so a rule for any other group is
certain to match nothing where the catalogue has nothing for it.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from typing import TYPE_CHECKING

from pratique.admission.rules import OPERATIONS, SCOPES
from pratique.admission.subresources import operation_on
from pratique.apimachinery.statuses import go_quoted
from pratique.cluster.api_resources import built_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from pratique.admission.rules import Rule
    from pratique.apimachinery.kinds import ResourceType
    from pratique.cluster.api_resources import Resources

_SIMILAR = 0.7
"""What difflib calls similar enough: "pod" is like "pods", "app" like "apps", and "CREAT" like "CREATE"."""
_WHOLE_OBJECT = frozenset({"CREATE", "UPDATE", "DELETE"})
_TYPES = 12
"""Names that a message lists before it leaves out the rest."""


@dataclasses.dataclass(frozen=True, slots=True)
class Futility:
    """One thing in a rule that matches nothing."""

    field: str
    """The field of the rule as it is written, such as ``apiGroups``."""
    index: int | None
    """The entry of the field; None for all of it."""
    text: str
    """What is wrong, and what is probably meant."""
    certain: bool
    """False where a cluster may have more kinds, or be of an older release."""


class FutileRules:
    """Finds futile rules, given the kinds of a cluster."""

    def __init__(self, resources: Resources) -> None:
        """Go by the kinds that are known."""
        self._types = tuple(each for each in resources if each.served)
        self._by_resource: dict[str, list[ResourceType]] = {}
        self._by_subresource: dict[str, list[ResourceType]] = {}
        for each in self._types:
            self._by_resource.setdefault(each.resource.resource, []).append(each)
            self._by_subresource.setdefault(each.subresource, []).append(each)
        self._groups = frozenset(each.resource.group for each in self._types)
        self._matched: dict[Rule, frozenset[tuple[ResourceType, str]]] = {}
        self._found: dict[Rule, tuple[Futility, ...]] = {}

    def find(self, rule: Rule) -> tuple[Futility, ...]:
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
            if _in(each.resource.group, rule.api_groups)
            and _in(each.resource.version, rule.api_versions)
            and _in_scope(each, rule.scope)
            for operation in operations_of(each)
            if _in(operation, rule.operations)
        )

    def _find(self, rule: Rule) -> Iterator[Futility]:
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
            release = max((each.removed_in or "" for each, _ in matched), key=_release)
            yield Futility("apiVersions", None, f"Kubernetes has none of it since {release}", certain=False)
        elif matched and all(group in self._groups for group in rule.api_groups):
            yield from self._idle_entries(rule, matched, odd)

    def _unknown(self, rule: Rule) -> Iterator[Futility]:
        """What is no word of the language, or names nothing at all."""
        for field, entries in (
            ("operations", rule.operations),
            ("apiGroups", rule.api_groups),
            ("apiVersions", rule.api_versions),
            ("resources", rule.resources),
        ):
            if not entries:
                yield Futility(field, None, f"{field} is empty: nothing matches", certain=True)
        for index, operation in enumerate(rule.operations):
            if operation not in OPERATIONS:
                text = f"there is no operation {go_quoted(operation)}{_meant(operation, OPERATIONS)}"
                yield Futility("operations", index, text, certain=True)
        if rule.scope is not None and rule.scope not in SCOPES:
            text = f"there is no scope {go_quoted(rule.scope)}{_meant(rule.scope, SCOPES)}"
            yield Futility("scope", None, text, certain=True)
        for index, group in enumerate(rule.api_groups):
            if group != "*" and group not in self._groups:
                text = f"no kind is of API group {go_quoted(group)}"
                yield Futility("apiGroups", index, text + self._group_hint(group), certain="." not in group)

    def _group_hint(self, group: str) -> str:
        if group in {"core", "v1"}:
            return '; the core group is written ""'
        meant = _meant(group, self._groups - {""})
        if meant or "." not in group:
            return meant
        return "; if its CustomResourceDefinition exists, give it by --cluster"

    def _of_resource(self, rule: Rule, index: int, written: str) -> Iterator[Futility]:
        """Go from the name of a resource to group, version, scope and operation, until nothing is left."""
        named = self._named(written)
        if not any(group == "*" or group in self._groups for group in rule.api_groups):
            return  # the groups are what is not known, and that has been told
        if not named:
            yield self._futile(rule, index, f"no kind is called {go_quoted(written)}{self._hint(written)}")
            return
        of_group = [each for each in named if _in(each.resource.group, rule.api_groups)]
        if not of_group:
            groups = _listed(_shown(each.resource.group) for each in named)
            text = f"{go_quoted(written)} is not of API group {_listed(map(_shown, rule.api_groups))}, but of {groups}"
            yield self._futile(rule, index, text)
            return
        of_version = [each for each in of_group if _in(each.resource.version, rule.api_versions)]
        if not of_version:
            versions = _listed(each.resource.version for each in of_group)
            text = f"{go_quoted(written)} has no version {_listed(rule.api_versions)}, but {versions}"
            yield Futility("apiVersions", None, text, certain=self._is_closed(rule))
            return
        in_scope = [each for each in of_version if _in_scope(each, rule.scope)]
        if not in_scope:
            what = "namespaced" if of_version[0].namespaced else "cluster-scoped"
            text = f"scope {rule.scope} leaves out {go_quoted(written)}, which is {what}"
            yield Futility("scope", None, text, certain=self._is_closed(rule))
            return
        known = set(rule.operations) & set(OPERATIONS)
        if known and not any(_in(one, known) for each in in_scope for one in operations_of(each)):
            allowed = _listed(sorted({one for each in in_scope for one in operations_of(each)}))
            how = f"takes {allowed}" if allowed else "is only read, which nothing is asked about"
            text = f"{go_quoted(written)} {how}, not {_listed(rule.operations)}"
            yield Futility("operations", None, text, certain=self._is_closed(rule))

    def _idle_entries(
        self,
        rule: Rule,
        matched: Collection[tuple[ResourceType, str]],
        odd: Collection[tuple[str, int | None]],
    ) -> Iterator[Futility]:
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
                    text = f"{go_quoted(entry)} matches none of {_listed(rule.resources)}"
                    yield Futility(field, index, text, certain=False)

    def _named(self, written: str) -> list[ResourceType]:
        """All types that an entry of ``resources`` names, of any group."""
        resource, _, subresource = written.partition("/")
        if resource == "*":
            return list(self._types) if subresource == "*" else self._by_subresource.get(subresource, [])
        return [
            each for each in self._by_resource.get(resource, ()) if subresource in {"*", each.subresource}
        ]

    def _futile(self, rule: Rule, index: int, text: str) -> Futility:
        return Futility("resources", index, text, certain=self._is_closed(rule))

    def _is_closed(self, rule: Rule) -> bool:
        """Whether no definition can add a kind to any of the groups."""
        return all(group != "*" and "." not in group for group in rule.api_groups)

    def _hint(self, written: str) -> str:
        resource, slash, subresource = written.partition("/")
        if slash and resource in self._by_resource:
            there = sorted({each.subresource for each in self._by_resource[resource]} - {""})
            return _meant(subresource, there) or (f"; there are {_listed(there)}" if there else "")
        kinds = {
            each.kind.kind.lower(): each.resource.resource for each in self._types if not each.subresource
        }
        if found := kinds.get(resource.lower()):
            return f"; did you mean {go_quoted(found + slash + subresource)}?"
        close = difflib.get_close_matches(resource.lower(), sorted(self._by_resource), n=1, cutoff=_SIMILAR)
        return f"; did you mean {go_quoted(close[0] + slash + subresource)}?" if close else ""


def operations_of(type_: ResourceType) -> Collection[str]:
    """The operations by which admission hears of a collection or subresource."""
    if not type_.subresource:
        return _WHOLE_OBJECT
    operation = operation_on(type_)
    return () if operation is None else (str(operation),)


@functools.cache
def futile_rules() -> FutileRules:
    """By the kinds of Kubernetes itself."""
    return FutileRules(built_in())


def _in(value: str, entries: Collection[str]) -> bool:
    return "*" in entries or value in entries


def _in_scope(type_: ResourceType, scope: str | None) -> bool:
    return scope in {None, "*"} or (scope == "Namespaced") is type_.namespaced


def _meant(written: str, known: Iterable[str]) -> str:
    lower = {each.lower(): each for each in sorted(known)}
    close = difflib.get_close_matches(written.lower(), lower, n=1, cutoff=_SIMILAR)
    return f"; did you mean {go_quoted(lower[close[0]])}?" if close else ""


def _listed(texts: Iterable[str]) -> str:
    names = list(dict.fromkeys(texts))
    more = f" and {len(names) - _TYPES} more" if len(names) > _TYPES else ""
    return ", ".join(names[:_TYPES]) + more


def _shown(group: str) -> str:
    return group or '""'


def _release(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))
