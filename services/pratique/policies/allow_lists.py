"""Allow-lists at work: which changes of an object a MutationAllowList allows, and the object without the others.

The two objects are compared, and not the operations of a patch: what a patch moves, copies, tests or replaces as a
whole says nothing about what it changes. The result is built from the object before: a value of the object after is
taken only where a pattern allows it, so nothing that is not allowed can be in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Self, TypeAlias

import msgspec

from pratique.apimachinery.diff import diff, identical, pair_items
from pratique.apimachinery.json_values import JSON, JSONObject, escape
from pratique.apimachinery.statuses import go_quoted
from pratique.configuration.mutation_allow_lists import (
    ANY,
    NEW_ITEM,
    MutationAllowList,
    ViolationAction,
    pattern_steps,
    step_matches,
)
from pratique.configuration.policy_references import PolicyReferenceKind, PolicyTarget

_Patterns: TypeAlias = "Sequence[tuple[str, ...]]"
"""What is left of each pattern at some place. One with no step left allows everything there."""

_MOST_PATHS = 5
_ABSENT: Final = object()
"""The value of a member that is not there."""


class Restriction(msgspec.Struct, frozen=True):
    """What an allow-list makes of a mutation."""

    object: JSON
    """The object with the changes that are allowed."""
    paths: tuple[str, ...]
    """JSON Pointers to what was changed and is not allowed; none means that everything is."""


class AllowList(msgspec.Struct, frozen=True):
    """A compiled allow-list."""

    name: str
    action: ViolationAction
    patterns: tuple[tuple[str, ...], ...]

    @classmethod
    def compile(cls, document: MutationAllowList) -> Self:
        """Compile a valid allow-list."""
        return cls(document.name, document.action, tuple(map(pattern_steps, document.spec.fields)))

    @property
    def drops(self) -> bool:
        """Whether what is not allowed is dropped; otherwise it is a failure."""
        return self.action is ViolationAction.DROP

    def restrict(self, before: JSON, after: JSON) -> Restriction:
        """Compare an object before and after a mutation. Neither is changed."""
        comparison = _Comparison()
        restricted = comparison.value(before, after, self.patterns, "")
        paths = tuple(comparison.paths)
        return Restriction(restricted if paths else after, paths)

    def told(self, paths: Sequence[str]) -> str:
        """Say what is not allowed, without any value."""
        more = f" and {len(paths) - _MOST_PATHS} more" if len(paths) > _MOST_PATHS else ""
        fields = ", ".join(path or "the whole object" for path in paths[:_MOST_PATHS]) + more
        return f"{self.prefix} of {fields}"

    @property
    def prefix(self) -> str:
        """How :meth:`told` begins."""
        verb = "drops the change" if self.drops else "does not allow the change"
        return f"MutationAllowList {go_quoted(self.name)} {verb}"


class _Comparison:
    """One comparison of two objects, and what it finds that is not allowed."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def value(self, before: object, after: object, patterns: _Patterns, path: str) -> JSON:
        """Return the allowed value at a place; :data:`_ABSENT` if it may be removed, or may not be added.

        Recursion goes no deeper than the longest pattern.
        """
        if any(not pattern for pattern in patterns) or _same(before, after):
            return after
        if patterns:
            if _is(dict, before, after):
                return self._members(before, after, patterns, path)
            if _is(list, before, after):
                return self._items(before, after, patterns, path)
        if before is _ABSENT or after is _ABSENT:
            self.paths.append(path)
        else:
            self.paths += (operation["path"] for operation in diff(before, after, path))
        return before

    def _members(self, before: object, after: object, patterns: _Patterns, path: str) -> JSON:
        """Return the allowed members of an object, of which one may be absent."""
        old: JSONObject = before if isinstance(before, dict) else {}
        new: JSONObject = after if isinstance(after, dict) else {}
        kept: JSONObject = {}
        for name in dict.fromkeys([*old, *new]):
            rest = _below(patterns, name)
            place = f"{path}/{escape(name)}"
            value = self.value(old.get(name, _ABSENT), new.get(name, _ABSENT), rest, place)
            if value is not _ABSENT:
                kept[name] = value
        return kept or _empty(before, after, kept)

    def _items(self, before: object, after: object, patterns: _Patterns, path: str) -> JSON:
        """Return the allowed items of an array, of which one may be absent."""
        old: list[JSON] = before if isinstance(before, list) else []
        new: list[JSON] = after if isinstance(after, list) else []
        inside = [pattern[1:] for pattern in patterns if pattern[0] == ANY]
        if any(not pattern for pattern in inside):
            return after
        may_add = any(pattern[0] == NEW_ITEM for pattern in patterns)
        kept: list[JSON] = []
        old_at = new_at = 0
        for i, j in [*pair_items(old, new), (len(old), len(new))]:
            kept += self._kept(old, range(old_at, i), path)
            kept += self._added(old, new, range(new_at, j), path, may_add=may_add)
            if i < len(old):
                kept.append(self.value(old[i], new[j], inside, f"{path}/{j}"))
            old_at, new_at = i + 1, j + 1
        return kept or _empty(before, after, kept)

    def _kept(self, old: Sequence[JSON], places: range, path: str) -> list[JSON]:
        """Return the items that a mutation has removed, which no pattern for single fields allows."""
        self.paths += (f"{path}/{place}" for place in places)
        return [old[place] for place in places]

    def _added(
        self, old: Sequence[JSON], new: Sequence[JSON], places: range, path: str, *, may_add: bool
    ) -> list[JSON]:
        """Return the items that a mutation may add: what was there before, elsewhere, is not new."""
        added = []
        for place in places:
            item = new[place]
            if may_add and not any(_is_same_item(item, other) for other in old):
                added.append(item)
            else:
                self.paths.append(f"{path}/{place}")
        return added


def _is(kind: type, before: object, after: object) -> bool:
    """Whether both are of a type, or one is and the other is absent; an empty one that comes or goes is a change."""
    if isinstance(before, kind) and isinstance(after, kind):
        return True
    return (before is _ABSENT and isinstance(after, kind) and bool(after)) or (
        after is _ABSENT and isinstance(before, kind) and bool(before)
    )


def _empty(before: object, after: object, empty: JSON) -> JSON:
    """Return what is left where all members or items are gone."""
    return _ABSENT if before is _ABSENT or after is _ABSENT else empty


def _same(before: object, after: object) -> bool:
    if before is _ABSENT or after is _ABSENT:
        return before is after
    return identical(before, after)


def _is_same_item(item: JSON, other: JSON) -> bool:
    """Whether an item is another one, or has its name."""
    if isinstance(item, dict) and isinstance(other, dict):
        name = item.get("name")
        if name is not None and name == other.get("name"):
            return True
    return identical(item, other)


def _below(patterns: _Patterns, name: str) -> list[tuple[str, ...]]:
    """Return what is left of the patterns inside a member."""
    return [pattern[1:] for pattern in patterns if step_matches(pattern[0], name)]


class AllowLists:
    """All allow-lists, by what they restrict."""

    def __init__(self, documents: Iterable[MutationAllowList] = ()) -> None:
        """Compile valid allow-lists, no two of which name the same."""
        self._by_target = {
            PolicyTarget.of(reference): allow_list
            for document in documents
            for allow_list in (AllowList.compile(document),)
            for reference in document.spec.policies
        }

    def __bool__(self) -> bool:
        """False if every field may be changed."""
        return bool(self._by_target)

    def of_policy(self, policy: str, binding: str) -> AllowList | None:
        """Return the allow-list of a mutating policy by one binding; None allows every field."""
        kind = PolicyReferenceKind.MUTATING_POLICY
        return self._of(kind, policy) or self._of(kind, policy, binding)

    def of_webhook(self, configuration: str, webhook: str) -> AllowList | None:
        """Return the allow-list of a mutating webhook; None allows every field."""
        return self._of(PolicyReferenceKind.MUTATING_WEBHOOK, configuration, webhook)

    def of_controller(self, name: str) -> AllowList | None:
        """Return the allow-list of an admission controller; None allows every field."""
        return self._of(PolicyReferenceKind.CONTROLLER, name)

    def _of(self, kind: PolicyReferenceKind, name: str, part: str = "") -> AllowList | None:
        return self._by_target.get(PolicyTarget(kind, name, part))


NO_ALLOW_LISTS = AllowLists()
"""Without any allow-list."""
