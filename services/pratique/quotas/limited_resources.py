"""Limited resources: what nobody may use unless some quota covers it.

Source: ``k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota``, and ``limitedByDefault`` and
``getMatchedLimitedScopes`` of ``controller.go`` beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pratique.errors import InputError
from pratique.field_errors import ROOT, FieldError, FieldPath, invalid, required
from pratique.quotas.scopes import SELECTING, ScopeRequirement, selects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pratique.demands import ResourceList
    from pratique.json_values import JSON
    from pratique.quotas.evaluators import Evaluator


class LimitedResource(msgspec.Struct, frozen=True, rename="camel"):
    """Something of one collection that is limited by default."""

    api_group: str = ""
    """The collection's group, empty for the core group."""
    resource: str = ""
    """The collection, for example ``persistentvolumeclaims``."""
    match_contains: tuple[str, ...] = ()
    """What the names of limited resources contain, any of these."""
    match_scopes: tuple[ScopeRequirement, ...] = ()
    """Scopes that are limited, any of these; of objects of whatever collection."""


def check_limited(limited: Iterable[LimitedResource]) -> Iterator[FieldError]:
    """Say what is wrong with a configuration."""
    for index, one in enumerate(limited):
        path = ROOT / "limitedResources" / index
        if not one.resource:
            yield required(path / "resource")
        for place, scope in enumerate(one.match_scopes):
            yield from _check_scope(scope, path / "matchScopes" / place)


def _check_scope(scope: ScopeRequirement, path: FieldPath) -> Iterator[FieldError]:
    """Find what could not be matched later; Kubernetes accepts it, and then lets everything through."""
    if scope.scope_name in SELECTING:
        try:
            selects(scope, ())
        except InputError as error:
            yield invalid(path, str(scope), str(error))


def limited_names(limited: Iterable[LimitedResource], evaluator: Evaluator, usage: ResourceList) -> set[str]:
    """The resources that an object uses, and that a quota has to cover because of that."""
    parts = [
        part
        for one in limited
        if (one.api_group, one.resource) == (evaluator.group, evaluator.resource)
        for part in one.match_contains
    ]
    used = (name for name, amount in usage.items() if amount.sign > 0)
    return {name for name in used if any(part in name for part in parts)}


def limited_scopes(
    limited: Iterable[LimitedResource], evaluator: Evaluator, reviewed: JSON
) -> list[ScopeRequirement]:
    """The scopes that an object is of, and that a quota has to cover because of that, in their order."""
    return [scope for one in limited for scope in evaluator.matching(one.match_scopes, reviewed)]
