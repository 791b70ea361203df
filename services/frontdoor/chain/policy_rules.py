"""Policy rules: which requests some policy may mean, so that no call is made for those that none does."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pratique.admission_policies.match_resources import ResourceMatcher
from pratique.targets import Asked

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pratique.configurations.policies import BindingSpec, Configured, PolicySpec
    from pratique.resources import Resources
    from pratique.reviews import Review

_REMEMBERED = 256
"""Kinds of requests that are remembered: the four operations on 64 collections and subresources."""


class PolicyRules:
    """The rules of all policies that are bound."""

    def __init__(
        self, policies: Iterable[Configured[PolicySpec]], bindings: Iterable[Configured[BindingSpec]]
    ) -> None:
        """Know the rules of ``policies``, of those only that ``bindings`` put to work."""
        bound = {(one.spec.policy_name, one.is_static) for one in bindings}
        constraints = (one.spec.match_constraints for one in policies if (one.name, one.is_static) in bound)
        self._matchers = tuple(ResourceMatcher.compile(each) for each in constraints if each is not None)
        self._matches = functools.lru_cache(_REMEMBERED)(self._find)

    def __bool__(self) -> bool:
        """False where no policy is bound."""
        return bool(self._matchers)

    def matches(self, review: Review) -> bool:
        """Tell whether any policy may mean the request."""
        return self._matches(Asked.of(review), review.cluster.resources)

    def mismatch(self, review: Review) -> str:
        """Say why none does; empty where one may."""
        return "" if self.matches(review) else "no policy has a rule that matches"

    def _find(self, asked: Asked, resources: Resources) -> bool:
        return any(matcher.may_match(asked, resources) for matcher in self._matchers)
