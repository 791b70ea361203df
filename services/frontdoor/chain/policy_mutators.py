"""MutatingAdmissionPolicy in the chain, run by the mutator in a call of its own.

That is because a second round needs to know how it left the object.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/mutating/{dispatcher,reinvocationcontext}.go``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from frontdoor.chain.hosted import run_mutators
from frontdoor.chain.policy_rules import PolicyRules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontdoor.chain.hosted import Member
    from frontdoor.chain.reinvocations import Reinvocation
    from frontdoor.chain.stages import Pass
    from frontdoor.transports import Transport
    from pratique.parts import Part
    from pratique.reviews import Review


@dataclasses.dataclass(frozen=True, slots=True)
class PolicyMutators:
    """All mutating policies of the chain."""

    member: Member
    transport: Transport

    async def admit(self, passing: Pass) -> bool:
        """Run the policies that mean the request; in the second round, those that are asked for again."""
        reinvocation = passing.policy_reinvocation
        reinvocation.begin(passing.review.object_document, passing.round)
        again = tuple(sorted(reinvocation.to_reinvoke)) if passing.round > 0 else None
        if again == () and not passing.explain and self._is_settled(passing.review):
            reinvocation.end(passing.review.object_document)
            return True
        outcomes = await run_mutators((self.member,), self.transport, passing, again)
        if outcomes:
            _remember(reinvocation, outcomes[0].parts)
        reinvocation.end(passing.review.object_document)
        return not passing.record.denials

    def _is_settled(self, review: Review) -> bool:
        """Tell whether a second round without anything to invoke would come to nothing, so that no call is made."""
        rules = self.member.rules
        return isinstance(rules, PolicyRules) and rules.is_steady(review)


def _remember(reinvocation: Reinvocation, parts: Sequence[Part]) -> None:
    for part in parts:
        if part.key:
            reinvocation.invoked(part.key, changed=bool(part.operations), if_needed=part.reinvocable)
    if any(part.applied for part in parts):
        # What was applied counts for all before the end, even what nothing came of, even for the last.
        reinvocation.changed()
