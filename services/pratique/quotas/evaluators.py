"""Evaluators: what is to be known of one kind of objects to charge them against quotas.

Source: ``k8s.io/apiserver/pkg/quota/v1/interfaces.go`` and ``generic/evaluator.go``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, TypeAlias

from pratique import statuses
from pratique.errors import InputError, RefusalError
from pratique.quotas.scopes import ScopeRequirement
from pratique.statuses import qualified_resource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pratique.demands import ResourceList
    from pratique.json_values import JSON
    from pratique.reviews import Review

Fits: TypeAlias = Callable[[ScopeRequirement, "JSON"], bool]
"""Tells whether an object is of a scope. Raises InputError where the scope is malformed."""


def _of_no_scope(scope: ScopeRequirement, reviewed: JSON) -> bool:
    """Tell that an object is of no scope: most kinds have none, and a quota with scopes never counts them."""
    del scope, reviewed
    return False


def _nothing_missing(required: Collection[str], reviewed: JSON) -> str:
    """Demand nothing of an object."""
    del required, reviewed
    return ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator:
    """How the objects of one collection are charged."""

    group: str
    resource: str
    """The collection that they are in."""
    is_charged: Callable[[Review], bool]
    """Tells whether a CREATE or UPDATE can change what is used."""
    is_kind: Callable[[JSON], bool]
    """Tells whether a document is what belongs in the collection."""
    measures: Callable[[str], bool]
    """Tells whether a resource that a quota may name is one that these objects use."""
    usage: Callable[[JSON], ResourceList]
    """Gives what one object uses. Raises RefusalError, 400, where an amount is no quantity."""
    fits: Fits = _of_no_scope
    missing: Callable[[Collection[str], JSON], str] = _nothing_missing
    """Says what an object must specify because a quota names those resources; empty where nothing is missing."""

    def matching(self, scopes: Iterable[ScopeRequirement], reviewed: JSON) -> list[ScopeRequirement]:
        """Those scopes that an object is of.

        Raises:
            InputError: a scope is malformed.
        """
        found = []
        for scope in scopes:
            try:
                if self.fits(scope, reviewed):
                    found.append(scope)
            except InputError as error:
                raise InputError(f"error on matching scope {scope}: {error}") from None
        return found

    def see_that_fit(self, reviewed: JSON) -> None:
        """Refuse to measure what does not belong in the collection.

        Raises:
            RefusalError: it is of another kind; 400.
        """
        if not self.is_kind(reviewed):
            name = qualified_resource(self.group, self.resource)
            text = f"Resource was marked as {name} but was unable to be converted"
            raise RefusalError(statuses.bad_request(text))
