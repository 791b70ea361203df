"""The scopes of Pods.

Source: ``pkg/quota/v1/evaluator/core/pods.go`` ``podMatchesScopeFunc``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.json_values import member
from pratique.qos_classes import is_best_effort
from pratique.quotas import scopes
from pratique.quotas.scopes import ScopeRequirement, selects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pratique.json_values import JSON

_AFFINITIES = ("podAffinity", "podAntiAffinity")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def fits(scope: ScopeRequirement, pod: JSON) -> bool:
    """Tell whether a Pod is of a scope.

    Raises:
        InputError: the scope's operator or values are wrong.
    """
    if scope.scope_name == scopes.PRIORITY_CLASS:
        name = member(pod, "spec", "priorityClassName")
        return selects(scope, [str(name)] if name else [])
    # The operator of the others is not looked at.
    holds = _HOLDS.get(scope.scope_name)
    return holds is not None and holds(pod)


def is_terminating(pod: JSON) -> bool:
    """Tell whether a Pod has a deadline."""
    deadline = member(pod, "spec", "activeDeadlineSeconds")
    return isinstance(deadline, int) and deadline >= 0


def _reaches_across(pod: JSON) -> bool:
    """Tell whether a Pod wants to be near Pods of other namespaces, or far from them."""
    return any(member(term, "namespaces") or _selects_namespaces(term) for term in _terms(pod))


def _selects_namespaces(term: JSON) -> bool:
    # The empty selector counts: it is of all namespaces.
    return member(term, "namespaceSelector") is not None


def _terms(pod: JSON) -> Iterator[JSON]:
    for affinity in _AFFINITIES:
        yield from _list(member(pod, "spec", "affinity", affinity, _REQUIRED))
        for weighted in _list(member(pod, "spec", "affinity", affinity, _PREFERRED)):
            yield member(weighted, "podAffinityTerm")


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


_HOLDS: Mapping[str, Callable[[JSON], bool]] = {
    scopes.TERMINATING: is_terminating,
    scopes.NOT_TERMINATING: lambda pod: not is_terminating(pod),
    scopes.BEST_EFFORT: is_best_effort,
    scopes.NOT_BEST_EFFORT: lambda pod: not is_best_effort(pod),
    scopes.CROSS_NAMESPACE_POD_AFFINITY: _reaches_across,
}
