"""Scopes: which objects a ResourceQuota counts, of the kinds that it counts.

Source: ``k8s.io/api/core/v1`` ``ScopedResourceSelectorRequirement``, and ``pkg/apis/core/v1/helper/helpers.go``
``ScopedResourceSelectorRequirementsAsSelector``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pratique.errors import InputError
from pratique.json_values import member
from pratique.selectors import (
    DOES_NOT_EXIST,
    EXISTS,
    IN,
    NOT_IN,
    LabelSelector,
    Requirement,
    compile_selector,
)
from pratique.statuses import go_quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pratique.json_values import JSON, JSONObject

TERMINATING = "Terminating"
NOT_TERMINATING = "NotTerminating"
BEST_EFFORT = "BestEffort"
NOT_BEST_EFFORT = "NotBestEffort"
PRIORITY_CLASS = "PriorityClass"
CROSS_NAMESPACE_POD_AFFINITY = "CrossNamespacePodAffinity"
VOLUME_ATTRIBUTES_CLASS = "VolumeAttributesClass"

SELECTING = frozenset({PRIORITY_CLASS, VOLUME_ATTRIBUTES_CLASS})
"""The scopes that are of a name: the operator and values of a requirement count for these alone."""

_OPERATORS = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST)


class ScopeRequirement(msgspec.Struct, frozen=True, rename="camel"):
    """One scope that an object must be of."""

    scope_name: str = ""
    """For example ``PriorityClass``."""
    operator: str = ""
    """``In``, ``NotIn``, ``Exists`` or ``DoesNotExist``."""
    values: tuple[str, ...] = ()
    """The names for ``In`` and ``NotIn``."""

    def __str__(self) -> str:
        """As Go's ``%v`` prints it: ``{PriorityClass In [high low]}``."""
        return f"{{{self.scope_name} {self.operator} [{' '.join(self.values)}]}}"


def printed_scopes(scopes: Iterable[ScopeRequirement]) -> str:
    """Several of them, as Go's ``%v`` prints a slice."""
    return f"[{' '.join(map(str, scopes))}]"


def scopes_of(quota: JSONObject) -> tuple[ScopeRequirement, ...]:
    """The scopes of a ResourceQuota: each of ``spec.scopes`` as one that must exist, then ``spec.scopeSelector``."""
    plain = _list(member(quota, "spec", "scopes"))
    expressions = _list(member(quota, "spec", "scopeSelector", "matchExpressions"))
    return (*(ScopeRequirement(str(name), EXISTS) for name in plain), *map(_read, expressions))


def _read(expression: JSON) -> ScopeRequirement:
    return ScopeRequirement(
        str(member(expression, "scopeName") or ""),
        str(member(expression, "operator") or ""),
        tuple(map(str, _list(member(expression, "values")))),
    )


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


def selects(scope: ScopeRequirement, names: Sequence[str]) -> bool:
    """Tell whether any of the names is meant, or, where there is none, that this is.

    Raises:
        InputError: operator or values are wrong; the text is Kubernetes' own.
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
    return LabelSelector(match_expressions=(Requirement(scope.scope_name, scope.operator, scope.values),))
