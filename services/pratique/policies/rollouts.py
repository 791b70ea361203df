"""Rollouts at work: whether a PolicyRollout keeps a policy, a webhook or a controller in shadow for a request.

What cannot be decided for certain is in shadow only where the rollout says so of everything: a canary is enforced for
the objects in its namespaces, and a policy without a rollout for all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Self

import msgspec

from pratique.admission.reviews import Review
from pratique.configuration.policy_references import PolicyReferenceKind, PolicyTarget
from pratique.configuration.policy_rollouts import PolicyRollout, RolloutMode
from pratique.policies.exceptions import NamespaceScope, is_inside_namespace


class Rollout(msgspec.Struct, frozen=True):
    """A compiled rollout that does not enforce everywhere."""

    name: str
    canary: NamespaceScope | None = None
    """The namespaces for which it is enforced, before their share is taken; None means none."""
    percent: int = 100
    """The share of those namespaces."""

    @classmethod
    def compile(cls, rollout: PolicyRollout) -> Self:
        """Compile a valid rollout."""
        spec = rollout.spec
        if rollout.mode is not RolloutMode.CANARY:
            return cls(rollout.name)
        scope = NamespaceScope.compile(spec.namespaces, spec.namespace_selector)
        return cls(rollout.name, scope, 100 if spec.percent is None else spec.percent)

    def in_shadow(self, review: Review) -> bool:
        """Return whether what is rolled out has no effect on a request."""
        return not (
            self.canary is not None
            and is_inside_namespace(review)
            and namespace_place(review.namespace) < self.percent
            and self.canary.includes(review)
        )


def namespace_place(namespace: str) -> int:
    """Return the place of a namespace among the canaries, from 0 to 99: it is one from that percentage + 1 on.

    It depends on the name alone, so that all processes agree, all policies meet the same namespaces, and a larger share
    includes every smaller one.
    """
    return int.from_bytes(hashlib.sha256(namespace.encode("utf-8", "surrogatepass")).digest()[:8]) % 100


class Rollouts:
    """All rollouts that do not enforce everywhere, by what they roll out."""

    def __init__(self, rollouts: Iterable[PolicyRollout] = ()) -> None:
        """Compile valid rollouts, no two of which name the same."""
        self._by_target = {
            PolicyTarget.of(reference): Rollout.compile(rollout)
            for rollout in rollouts
            if rollout.mode is not RolloutMode.ENFORCE
            for reference in rollout.spec.policies
        }

    def __bool__(self) -> bool:
        """False if everything is enforced everywhere."""
        return bool(self._by_target)

    def of_policy(self, kind: PolicyReferenceKind, policy: str, binding: str) -> Rollout | None:
        """Return the rollout of a policy by one binding; None enforces it."""
        return self._of(kind, policy) or self._of(kind, policy, binding)

    def of_webhook(self, kind: PolicyReferenceKind, configuration: str, webhook: str) -> Rollout | None:
        """Return the rollout of a webhook; None enforces it."""
        return self._of(kind, configuration, webhook)

    def of_controller(self, name: str) -> Rollout | None:
        """Return the rollout of an admission controller; None enforces it."""
        return self._of(PolicyReferenceKind.CONTROLLER, name)

    def _of(self, kind: PolicyReferenceKind, name: str, part: str = "") -> Rollout | None:
        return self._by_target.get(PolicyTarget(kind, name, part))


NO_ROLLOUTS = Rollouts()
"""Without any rollout."""
