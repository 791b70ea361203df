"""MutatingAdmissionPolicy in the chain, run by the mutator in a call of its own.

That is because a second round needs to know how it left the object.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/mutating/{dispatcher,reinvocationcontext}.go``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from frontdoor.chain.hosted import run_mutators

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontdoor.chain.hosted import Member
    from frontdoor.chain.reinvocations import Reinvocation
    from frontdoor.chain.stages import Pass
    from frontdoor.transports import Transport
    from pratique.parts import Part


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
        outcomes = await run_mutators((self.member,), self.transport, passing, again)
        if outcomes:
            _remember(reinvocation, outcomes[0].parts)
        reinvocation.end(passing.review.object_document)
        return outcomes is not None and not passing.record.denials


def _remember(reinvocation: Reinvocation, parts: Sequence[Part]) -> None:
    for part in parts:
        if part.key:
            reinvocation.invoked(part.key, changed=bool(part.operations), if_needed=part.reinvocable)
    if any(part.applied for part in parts):
        # What was applied counts for all before the end, even what nothing came of, even for the last.
        reinvocation.changed()
