"""Kinds: of which objects are made up, so that mutators have something to do."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.reviews import Operation
from pratique.schemas import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from frontdoor.mutator_sets import Mutator
    from pratique.clusters import Cluster
    from pratique.kinds import GroupVersionKind, ResourceType
    from pratique.rules import Rule
    from pratique.schemas import Structure

_EXAMPLES = frozenset({"Pod", "Deployment", "ConfigMap"})
"""What stands for all kinds where a rule names none: a Pod, what makes Pods, and what has nothing to do with them."""


@dataclasses.dataclass(frozen=True, slots=True)
class MadeKind:
    """A kind of which objects are made up, and the operation that mutators want to see."""

    kind: GroupVersionKind
    schema: Structure
    operation: Operation


def kinds_for(
    mutators: Sequence[Mutator], cluster: Cluster, given: Iterable[GroupVersionKind]
) -> list[MadeKind]:
    """The kinds that mutators name in their rules, and some where they name none.

    Where some mutators are not Pratique's own, their kinds count alone: it is those that are to be proved.
    """
    own = [one for one in mutators if not one.placed] or mutators
    rules = [rule for one in own for rule in one.rules]
    known = frozenset(given)
    made: dict[GroupVersionKind, MadeKind] = {}
    for each in cluster.resources:
        if each.subresource or each.removed_in or not each.served:
            continue
        wanted = list(_wanting(each, rules, is_given=each.kind in known))
        schema = schema_of(each.kind, cluster) if wanted else None
        if schema is not None and _is_preferred(each, made, known):
            made.setdefault(each.kind, MadeKind(each.kind, schema, _operation(wanted)))
    return list(made.values())


def _is_preferred(
    each: ResourceType, made: Iterable[GroupVersionKind], known: frozenset[GroupVersionKind]
) -> bool:
    """One version of a kind is enough, unless others are given."""
    same = ((other.group, other.kind) == (each.kind.group, each.kind.kind) for other in made)
    return each.kind in known or not any(same)


def _wanting(each: ResourceType, rules: Iterable[Rule], *, is_given: bool) -> Iterator[Rule]:
    for rule in rules:
        resources = {name for name in rule.resources if "/" not in name or name == "*/*"}
        groups_fit = each.resource.group in rule.api_groups or "*" in rule.api_groups
        versions_fit = each.resource.version in rule.api_versions or "*" in rule.api_versions
        if not groups_fit or not versions_fit:
            continue
        is_named = each.resource.resource in resources
        if is_named or (resources & {"*", "*/*"} and (is_given or each.kind.kind in _EXAMPLES)):
            yield rule


def _operation(rules: Iterable[Rule]) -> Operation:
    operations = {operation for rule in rules for operation in rule.operations}
    if operations & {"*", Operation.CREATE.value} or Operation.UPDATE.value not in operations:
        return Operation.CREATE
    return Operation.UPDATE
