"""Which requests hosted controllers are called for: their rules, and those of all policies that they run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Protocol, Self

import msgspec

from pratique.admission.matching import RequestKey
from pratique.admission.reviews import Call, Review
from pratique.cluster.api_resources import ApiResources
from pratique.configuration.admissionregistration import (
    MatchResources,
    PolicyBindingSpec,
    PolicyConfiguration,
    PolicySpec,
)
from pratique.policies.allow_lists import NO_ALLOW_LISTS, AllowLists
from pratique.policies.exceptions import Exemption
from pratique.policies.matching import ResourceMatcher
from pratique.policies.rollouts import NO_ROLLOUTS, Rollout, Rollouts
from pratique_frontdoor.chain.violations import RestrictedController


class RulesWithSkipReason(msgspec.Struct, frozen=True):
    """Rules, and the controller's own reason to skip a request that they match."""

    rules: Rules
    skip_reason: Callable[[Review], str]
    """Returns why the controller would do nothing; empty if it may do something."""

    def matches(self, review: Review) -> bool:
        """Return whether the controller is called for the request."""
        return self.rules.matches(review) and not self.skip_reason(review)

    def mismatch(self, review: Review) -> str:
        """Return why the controller is not called; empty if it is."""
        return self.rules.mismatch(review) or self.skip_reason(review)


_CACHED_REQUESTS = 256
"""Cached kinds of requests: the four operations on 64 resources and subresources."""


class PolicyRules:
    """The rules of all policies that have a binding."""

    def __init__(
        self,
        policies: Iterable[PolicyConfiguration[PolicySpec]],
        bindings: Iterable[PolicyConfiguration[PolicyBindingSpec]],
    ) -> None:
        """Use the rules of those ``policies`` that have a binding."""
        by_policy: dict[tuple[str, bool], list[PolicyBindingSpec]] = {}
        for binding in bindings:
            by_policy.setdefault((binding.spec.policy_name, binding.is_static), []).append(binding.spec)
        bound = [(policy.spec, by_policy.get((policy.name, policy.is_static), ())) for policy in policies]
        self._policies = tuple(_BoundPolicy.of(spec, found) for spec, found in bound if found)
        self._matches = functools.lru_cache(_CACHED_REQUESTS)(self._find)
        self._is_steady = functools.lru_cache(_CACHED_REQUESTS)(self._find_steady)

    def __bool__(self) -> bool:
        """False if no policy has a binding."""
        return any(policy.matcher for policy in self._policies)

    def matches(self, review: Review) -> bool:
        """Return whether any policy may match the request."""
        return self._matches(RequestKey.of(review), review.cluster.resources)

    def mismatch(self, review: Review) -> str:
        """Return why no policy matches; empty if one may."""
        return "" if self.matches(review) else "no policy has a rule that matches"

    def is_steady(self, review: Review) -> bool:
        """Return whether the same policies match such a request however its object has changed.

        That is so if all policies that can match it use only their rules, and need no other version of the object.
        Calling them a second time, with no policy to reinvoke, would then have no effect.
        """
        return self._is_steady(RequestKey.of(review), review.cluster.resources)

    def _find(self, request_key: RequestKey, resources: ApiResources) -> bool:
        return any(policy.may_match(request_key, resources) for policy in self._policies)

    def _find_steady(self, request_key: RequestKey, resources: ApiResources) -> bool:
        concerned = [policy for policy in self._policies if policy.may_match(request_key, resources)]
        return all(policy.is_plain and policy.matches_requested_resource(request_key) for policy in concerned)


class _BoundPolicy(msgspec.Struct, frozen=True):
    """A policy with its bindings."""

    matcher: ResourceMatcher | None
    """None without match constraints, which no API server accepts."""
    is_plain: bool
    """Whether only rules decide whether it matches: no selector, condition or parameter, in the bindings neither."""

    @classmethod
    def of(cls, spec: PolicySpec, bindings: Iterable[PolicyBindingSpec]) -> Self:
        constraints = spec.match_constraints
        matcher = None if constraints is None else ResourceMatcher.compile(constraints)
        goes_by_rules = constraints is not None and _selects_everything(constraints)
        plain = goes_by_rules and not spec.match_conditions and spec.param_kind is None
        return cls(matcher, plain and all(binding.match_resources is None for binding in bindings))

    def may_match(self, request_key: RequestKey, resources: ApiResources) -> bool:
        return self.matcher is not None and self.matcher.may_match(request_key, resources)

    def matches_requested_resource(self, request_key: RequestKey) -> bool:
        """Return whether it matches the requested resource itself, not only an equivalent."""
        return self.matcher is not None and self.matcher.matches_requested_resource(request_key)


def _selects_everything(resources: MatchResources) -> bool:
    # A missing selector is an error of each request, which is reported each time.
    return all(
        selector is not None and selector.is_empty
        for selector in (resources.namespace_selector, resources.object_selector)
    )


class Rules(Protocol):
    """Which requests a controller is called for."""

    def matches(self, review: Review) -> bool:
        """Return whether the controller is called for the request."""

    def mismatch(self, review: Review) -> str:
        """Return why the controller is not called; empty if it is."""


class ChainMember(msgspec.Struct, frozen=True):
    """A hosted controller of the chain with its rules."""

    call: Call
    rules: Rules
    has_members: bool = False
    """Whether an explanation has outcomes of its parts: of policies, or that selectors or conditions kept it out."""
    exemptions: tuple[Exemption, ...] = ()
    """The exceptions from the controller."""
    rollout: Rollout | None = None
    """The controller's rollout, if it is not enforced everywhere."""
    policy_rollouts: Rollouts = NO_ROLLOUTS
    """The rollouts of its policies, if it runs policies."""
    restricted: RestrictedController | None = None
    """The controller with its allow-list, if it has one."""
    policy_allow_lists: AllowLists = NO_ALLOW_LISTS
    """The allow-lists of its policies, if it runs policies."""

    def shadow(self, review: Review) -> str:
        """Return the name of the PolicyRollout that keeps it in shadow for a review; empty if none does."""
        return self.rollout.name if self.rollout is not None and self.rollout.in_shadow(review) else ""

    def call_for(self, *, explain: bool) -> Call:
        """Return the call to make."""
        return msgspec.structs.replace(self.call, explain=True) if explain and self.has_members else self.call
