"""What to say of a kind that is not known: the nearest right one."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pratique.kinds import GroupVersionKind, ResourceType

# What difflib calls similar enough: "Deploymnt" is, "ServiceMonitor" is not a misspelt "Service".
_SIMILAR = 0.75


def nearest_kind(kind: GroupVersionKind, known: Iterable[ResourceType]) -> GroupVersionKind | None:
    """The known kind that was probably meant; None where nothing is close.

    A kind of that very name in another group or version is nearest; upper and lower case, and the plural, are
    forgiven.
    """
    creatable = [each for each in known if each.served and not each.subresource]
    names = {each.kind.kind.lower(): each.kind.kind for each in creatable}
    names |= {each.resource.resource: each.kind.kind for each in creatable}
    close = difflib.get_close_matches(kind.kind.lower(), names, n=1, cutoff=_SIMILAR)
    if not close:
        return None
    named = [each for each in creatable if each.kind.kind == names[close[0]]]
    return min(named, key=lambda each: _distance(each, kind)).kind


def unknown_kind(kind: GroupVersionKind, known: Iterable[ResourceType]) -> str:
    """Say that a kind is not known, in kubectl's words, and what would be right."""
    known = tuple(known)
    hint = _hint(kind, known)
    return f'no matches for kind "{kind.kind}" in version "{kind.api_version}": {hint}'


def _hint(kind: GroupVersionKind, known: tuple[ResourceType, ...]) -> str:
    parents = [f"{t.resource.resource}/{t.subresource}" for t in known if t.subresource and t.kind == kind]
    if parents:
        return f"it is the kind of a subresource ({', '.join(parents)}), not of an object of its own"
    nearest = nearest_kind(kind, known)
    of_group = {each.kind.kind for each in known if each.kind.group == kind.group}
    if nearest is not None and (of_group or nearest.kind == kind.kind):
        return f'did you mean kind "{nearest.kind}" in version "{nearest.api_version}"?'
    if of_group:
        return f"the kinds of that group are {', '.join(sorted(of_group))}"
    return "if it is a custom resource, add its CustomResourceDefinition to --cluster"


def _distance(candidate: ResourceType, wanted: GroupVersionKind) -> tuple[bool, bool, bool]:
    """How far a kind of the right name is from the one that was written; what still exists is nearer."""
    kind = candidate.kind
    return candidate.removed_in is not None, kind.group != wanted.group, kind.version != wanted.version
