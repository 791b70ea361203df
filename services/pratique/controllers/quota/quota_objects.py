"""ResourceQuotas as they are stored, and what of them is used."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.apimachinery.errors import InputError, RefusalError
from pratique.apimachinery.field_errors import FieldPath
from pratique.apimachinery.json_values import member
from pratique.apimachinery.quantities import Quantity
from pratique.controllers.quota.scopes import read_scopes
from pratique.pods.resource_requirements import read_resource_list

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pratique.apimachinery.json_values import JSONObject
    from pratique.controllers.quota.scopes import ScopeRequirement
    from pratique.pods.resource_requirements import ResourceList

ZERO = Quantity(0)
ONE = Quantity(1)


def add(first: ResourceList, second: ResourceList) -> dict[str, Quantity]:
    """The sum of two lists; what only one of them names counts as it is."""
    total = dict(first)
    for name, amount in second.items():
        total[name] = total[name] + amount if name in total else amount
    return total


def increase(after: ResourceList, before: ResourceList) -> dict[str, Quantity]:
    """By how much each amount has grown; zero where it has shrunk, because a quota is never credited."""
    grown = {}
    for name in (*after, *before):
        difference = after.get(name, ZERO) - before.get(name, ZERO)
        grown[name] = difference if difference.sign > 0 else ZERO
    return grown


def mask(amounts: ResourceList, names: Collection[str]) -> dict[str, Quantity]:
    """Only the amounts of those names."""
    return {name: amount for name, amount in amounts.items() if name in names}


def without_zeros(amounts: ResourceList) -> dict[str, Quantity]:
    """Only the amounts that are not zero."""
    return {name: amount for name, amount in amounts.items() if amount.sign}


def exceeding(amounts: ResourceList, bounds: ResourceList) -> set[str]:
    """The names whose amount is above its bound; what has no bound is not."""
    return {name for name in amounts.keys() & bounds.keys() if amounts[name].compare(bounds[name]) > 0}


def format_amounts(amounts: ResourceList) -> str:
    """The amounts in one line, sorted by name: ``cpu=3,memory=3Gi``."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def format_names(names: Iterable[str]) -> str:
    """The names in one line, sorted."""
    return ",".join(sorted(names))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """One ResourceQuota."""

    namespace: str
    name: str
    uid: str
    """Empty where it has none."""
    hard: ResourceList
    """How much may be used at most: its ``status.hard``, or ``spec.hard`` where it has no status."""
    used: ResourceList | None
    """How much it says is used; None where it has no status, and the objects have to be counted."""
    scopes: tuple[ScopeRequirement, ...]
    """What an object must be of to be counted, all of it."""


def read_quota(document: JSONObject) -> Quota:
    """Read a ResourceQuota.

    In a cluster its status is what counts, because the quota controller has worked it out. One that nobody has worked
    anything out for says nothing there, and then its spec counts.

    Raises:
        InputError: an amount is no quantity; the text names quota and field.
    """
    status = member(document, "status")
    known = any(member(status, field) is not None for field in ("hard", "used"))
    return Quota(
        namespace=str(member(document, "metadata", "namespace") or ""),
        name=str(member(document, "metadata", "name") or ""),
        uid=str(member(document, "metadata", "uid") or ""),
        hard=_read_amounts(document, "status" if known else "spec", "hard"),
        used=_read_amounts(document, "status", "used") if known else None,
        scopes=read_scopes(document),
    )


def _read_amounts(document: JSONObject, *place: str) -> ResourceList:
    try:
        return read_resource_list(member(document, *place), FieldPath(place))
    except RefusalError as error:
        namespace, name = (member(document, "metadata", field) for field in ("namespace", "name"))
        raise InputError(f"resourcequotas {namespace}/{name}: {error}") from None
