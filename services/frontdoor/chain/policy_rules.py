"""Policy rules: which requests some policy may mean, so that no call is made for those that none does."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

from pratique.admission_policies.match_resources import ResourceMatcher
from pratique.targets import Asked

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from pratique.configurations.policies import BindingSpec, Configured, MatchResources, PolicySpec
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
        by_policy: dict[tuple[str, bool], list[BindingSpec]] = {}
        for one in bindings:
            by_policy.setdefault((one.spec.policy_name, one.is_static), []).append(one.spec)
        bound = [(one.spec, by_policy.get((one.name, one.is_static), ())) for one in policies]
        self._policies = tuple(_Bound.of(spec, found) for spec, found in bound if found)
        self._matches = functools.lru_cache(_REMEMBERED)(self._find)
        self._is_steady = functools.lru_cache(_REMEMBERED)(self._find_steady)

    def __bool__(self) -> bool:
        """False where no policy is bound."""
        return any(one.matcher for one in self._policies)

    def matches(self, review: Review) -> bool:
        """Tell whether any policy may mean the request."""
        return self._matches(Asked.of(review), review.cluster.resources)

    def mismatch(self, review: Review) -> str:
        """Say why none does; empty where one may."""
        return "" if self.matches(review) else "no policy has a rule that matches"

    def is_steady(self, review: Review) -> bool:
        """Tell whether the same policies mean such a request whatever has become of its object since they saw it.

        That is so where all that can mean it go by nothing but its rules, and need no other version of the object. To
        ask them again, and none to be invoked, then comes to nothing.
        """
        return self._is_steady(Asked.of(review), review.cluster.resources)

    def _find(self, asked: Asked, resources: Resources) -> bool:
        return any(one.may_match(asked, resources) for one in self._policies)

    def _find_steady(self, asked: Asked, resources: Resources) -> bool:
        concerned = [one for one in self._policies if one.may_match(asked, resources)]
        return all(one.is_plain and one.means_literally(asked) for one in concerned)


@dataclasses.dataclass(frozen=True, slots=True)
class _Bound:
    """A policy that is bound."""

    matcher: ResourceMatcher | None
    """None where it says nothing of what it matches, which no API server lets pass."""
    is_plain: bool
    """Whether nothing but rules decides about it and its bindings: no selector, condition or parameter."""

    @classmethod
    def of(cls, spec: PolicySpec, bindings: Iterable[BindingSpec]) -> Self:
        constraints = spec.match_constraints
        matcher = None if constraints is None else ResourceMatcher.compile(constraints)
        goes_by_rules = constraints is not None and _selects_all(constraints)
        plain = goes_by_rules and not spec.match_conditions and spec.param_kind is None
        return cls(matcher, plain and all(one.match_resources is None for one in bindings))

    def may_match(self, asked: Asked, resources: Resources) -> bool:
        return self.matcher is not None and self.matcher.may_match(asked, resources)

    def means_literally(self, asked: Asked) -> bool:
        """Whether it means the collection that was asked for, not only an equivalent."""
        return self.matcher is not None and self.matcher.means_literally(asked)


def _selects_all(resources: MatchResources) -> bool:
    # One that is not set at all is an error of each request, which is told each time.
    return all(
        one is not None and one.is_empty for one in (resources.namespace_selector, resources.object_selector)
    )
