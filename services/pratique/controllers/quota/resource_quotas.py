"""ResourceQuotas as they are stored: their amounts, their scopes, and the resources that are limited by default."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from pratique.apimachinery.errors import InputError, RefusalError
from pratique.apimachinery.field_errors import ROOT, FieldError, FieldPath, invalid, required
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.quantities import Quantity
from pratique.apimachinery.selectors import (
    DOES_NOT_EXIST,
    EXISTS,
    IN,
    NOT_IN,
    LabelSelector,
    LabelSelectorRequirement,
    compile_selector,
)
from pratique.apimachinery.statuses import go_quoted
from pratique.pods.resource_requirements import ResourceList, read_resource_list

if TYPE_CHECKING:
    from pratique.controllers.quota.evaluators import QuotaEvaluator


TERMINATING = "Terminating"
NOT_TERMINATING = "NotTerminating"
BEST_EFFORT = "BestEffort"
NOT_BEST_EFFORT = "NotBestEffort"
PRIORITY_CLASS = "PriorityClass"
CROSS_NAMESPACE_POD_AFFINITY = "CrossNamespacePodAffinity"
VOLUME_ATTRIBUTES_CLASS = "VolumeAttributesClass"

NAMED_SCOPES = frozenset({PRIORITY_CLASS, VOLUME_ATTRIBUTES_CLASS})
"""The scopes with names: only here do a requirement's operator and values count."""

_OPERATORS = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST)


class ScopeRequirement(msgspec.Struct, frozen=True, rename="camel"):
    """A scope that an object must match."""

    scope_name: str = ""
    """For example ``PriorityClass``."""
    operator: str = ""
    """``In``, ``NotIn``, ``Exists`` or ``DoesNotExist``."""
    values: tuple[str, ...] = ()
    """The names for ``In`` and ``NotIn``."""

    def __str__(self) -> str:
        """Formatted as Go's ``%v``: ``{PriorityClass In [high low]}``."""
        return f"{{{self.scope_name} {self.operator} [{' '.join(self.values)}]}}"


def format_scopes(scopes: Iterable[ScopeRequirement]) -> str:
    """Scopes as Go's ``%v`` prints a slice."""
    return f"[{' '.join(map(str, scopes))}]"


def read_scopes(quota: JSONObject) -> tuple[ScopeRequirement, ...]:
    """The scopes of a ResourceQuota: ``spec.scopes`` with the operator ``Exists``, then ``spec.scopeSelector``."""
    plain = _list_or_empty(member(quota, "spec", "scopes"))
    expressions = _list_or_empty(member(quota, "spec", "scopeSelector", "matchExpressions"))
    return (*(ScopeRequirement(str(name), EXISTS) for name in plain), *map(_read_scope, expressions))


def _read_scope(expression: JSON) -> ScopeRequirement:
    return ScopeRequirement(
        str(member(expression, "scopeName") or ""),
        str(member(expression, "operator") or ""),
        tuple(map(str, _list_or_empty(member(expression, "values")))),
    )


def _list_or_empty(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


def scope_selects(scope: ScopeRequirement, names: Sequence[str]) -> bool:
    """Whether a scope selects any of the names; without names, whether it matches their absence.

    Raises:
        InputError: The operator or the values are invalid; the text is Kubernetes' own.
    """
    if scope.operator == EXISTS:
        return bool(names)
    try:
        selector = compile_selector(_as_selector(scope))
    except InputError as error:
        raise InputError(f"failed to parse and convert selector: {error}") from None
    if not names:
        return selector.matches({})
    return any(selector.matches({scope.scope_name: name}) for name in names)


def _as_selector(scope: ScopeRequirement) -> LabelSelector:
    if scope.operator not in _OPERATORS:
        raise InputError(f"{go_quoted(scope.operator)} is not a valid scope selector operator")
    return LabelSelector(
        match_expressions=(LabelSelectorRequirement(scope.scope_name, scope.operator, scope.values),)
    )


class LimitedResource(msgspec.Struct, frozen=True, rename="camel"):
    """Resources or scopes that are limited by default."""

    api_group: str = ""
    """The group of the resource; empty for the core group."""
    resource: str = ""
    """The plural name, for example ``persistentvolumeclaims``."""
    match_contains: tuple[str, ...] = ()
    """Resource names that contain any of these are limited."""
    match_scopes: tuple[ScopeRequirement, ...] = ()
    """Objects that match any of these scopes are limited, whatever their kind."""


def check_limited(limited: Iterable[LimitedResource]) -> Iterator[FieldError]:
    """The errors in a configuration."""
    for index, resource in enumerate(limited):
        path = ROOT / "limitedResources" / index
        if not resource.resource:
            yield required(path / "resource")
        for place, scope in enumerate(resource.match_scopes):
            yield from _check_scope(scope, path / "matchScopes" / place)


def _check_scope(scope: ScopeRequirement, path: FieldPath) -> Iterator[FieldError]:
    """Find a scope that could not be evaluated later. Kubernetes accepts it, and then admits everything."""
    if scope.scope_name in NAMED_SCOPES:
        try:
            scope_selects(scope, ())
        except InputError as error:
            yield invalid(path, str(scope), str(error))


def limited_names(
    limited: Iterable[LimitedResource], evaluator: QuotaEvaluator, usage: ResourceList
) -> set[str]:
    """The resources that an object uses and that a quota therefore must cover."""
    parts = [
        part
        for resource in limited
        if (resource.api_group, resource.resource) == (evaluator.group, evaluator.resource)
        for part in resource.match_contains
    ]
    used = (name for name, amount in usage.items() if amount.sign > 0)
    return {name for name in used if any(part in name for part in parts)}


def limited_scopes(
    limited: Iterable[LimitedResource], evaluator: QuotaEvaluator, reviewed: JSON
) -> list[ScopeRequirement]:
    """The scopes that an object matches and that a quota therefore must cover, in their order."""
    return [
        scope for resource in limited for scope in evaluator.matching_scopes(resource.match_scopes, reviewed)
    ]


ZERO = Quantity(0)
ONE = Quantity(1)


def add(first: ResourceList, second: ResourceList) -> dict[str, Quantity]:
    """The sum of two resource lists."""
    total = dict(first)
    for name, amount in second.items():
        total[name] = total[name] + amount if name in total else amount
    return total


def increase(after: ResourceList, before: ResourceList) -> dict[str, Quantity]:
    """The increase of each amount; zero for decreases, because a quota is never credited."""
    grown = {}
    for name in (*after, *before):
        difference = after.get(name, ZERO) - before.get(name, ZERO)
        grown[name] = difference if difference.sign > 0 else ZERO
    return grown


def mask(amounts: ResourceList, names: Collection[str]) -> dict[str, Quantity]:
    """Only the amounts with these names."""
    return {name: amount for name, amount in amounts.items() if name in names}


def without_zeros(amounts: ResourceList) -> dict[str, Quantity]:
    """Only the amounts that are not zero."""
    return {name: amount for name, amount in amounts.items() if amount.sign}


def exceeding(amounts: ResourceList, bounds: ResourceList) -> set[str]:
    """The names whose amount exceeds its bound. Names without a bound never do."""
    return {name for name in amounts.keys() & bounds.keys() if amounts[name].compare(bounds[name]) > 0}


def format_amounts(amounts: ResourceList) -> str:
    """The amounts in one line, sorted by name: ``cpu=3,memory=3Gi``."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def format_names(names: Iterable[str]) -> str:
    """The names in one line, sorted."""
    return ",".join(sorted(names))


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed ResourceQuota."""

    namespace: str
    name: str
    uid: str
    """Empty if it has none."""
    hard: ResourceList
    """The limits: ``status.hard``, or ``spec.hard`` if the quota has no status."""
    used: ResourceList | None
    """The usage in its status; None if it has no status, so that the objects have to be counted."""
    scopes: tuple[ScopeRequirement, ...]
    """The scopes that an object must match to be counted."""


def read_quota(document: JSONObject) -> Quota:
    """Read a ResourceQuota.

    The status counts, because the quota controller has computed it. A quota without a status counts by its spec.

    Raises:
        InputError: An amount is not a quantity; the text names quota and field.
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
