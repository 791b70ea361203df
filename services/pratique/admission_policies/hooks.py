"""Hooks: compiled policies with what binds them, and which of them a kind of request can be meant by.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_source.go`` and ``plugin.go``.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from pratique.admission_policies.exclusions import is_excluded
from pratique.targets import Asked

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pratique.admission_policies.compilation import Policy
    from pratique.configurations.policies import PolicySpec
    from pratique.resources import Resources
    from pratique.reviews import Review

_REMEMBERED = 256
"""Kinds of requests whose hooks are remembered: the four operations on 64 collections and subresources."""


class Hooked(Protocol):
    """A policy, and whatever else belongs to it."""

    @property
    def policy(self) -> Policy[PolicySpec]:
        """The policy."""


H = TypeVar("H", bound=Hooked)


class Hooks(Generic[H]):
    """Policies that something binds, in the order in which they are asked."""

    def __init__(self, hooks: Iterable[H]) -> None:
        """Keep them in their order."""
        self._hooks = tuple(hooks)
        self._candidates = functools.lru_cache(_REMEMBERED)(self._find_candidates)

    def __bool__(self) -> bool:
        """False where there is nothing to ask."""
        return bool(self._hooks)

    def of(self, review: Review, *, explain: bool) -> Sequence[H]:
        """Those to be asked about a review; where all is to be told, those that do not mean it, too."""
        if explain:
            return [hook for hook in self._hooks if not _excludes(hook, Asked.of(review))]
        return self._candidates(Asked.of(review), review.cluster.resources)

    def _find_candidates(self, asked: Asked, resources: Resources) -> tuple[H, ...]:
        return tuple(
            hook
            for hook in self._hooks
            if not _excludes(hook, asked) and hook.policy.matcher.may_match(asked, resources)
        )


def _excludes(hook: Hooked, asked: Asked) -> bool:
    return is_excluded(asked.resource, is_static=hook.policy.is_static)
