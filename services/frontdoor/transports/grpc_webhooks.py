"""gRPC webhooks: somebody's service that speaks ``proto/``, called as a webhook is, one at a time."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import msgspec

from frontdoor.webhooks.answers import StatusDocument, denial
from pratique.admission.outcomes import Denied, Failed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontdoor.transports.grpc import GrpcTransport
    from pratique.admission.calls import Call, Deadline
    from pratique.admission.outcomes import OutcomeDecision, Outcome
    from pratique.admission.reviews import Review

FAILURE_PREFIX = "failed to call webhook: "
"""How the API server begins the reason of a call that did not come through."""


@dataclasses.dataclass(frozen=True, slots=True)
class GrpcWebhookTransport:
    """Asks through another transport, and words refusals and failures as those of a webhook."""

    through: GrpcTransport

    @property
    def endpoint(self) -> str:
        """Where it asks."""
        return self.through.endpoint

    async def mutate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Ask one mutating webhook."""
        return [_as_webhook_outcome(one) for one in await self.through.mutate(review, calls, deadline)]

    async def validate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Ask one validating webhook."""
        return [_as_webhook_outcome(one) for one in await self.through.validate(review, calls, deadline)]

    async def close(self) -> None:
        """Let go of the connection."""
        await self.through.close()


def _as_webhook_outcome(outcome: Outcome) -> Outcome:
    return msgspec.structs.replace(outcome, decision=_as_webhook_decision(outcome.controller, outcome.decision))


def _as_webhook_decision(webhook: str, decision: OutcomeDecision) -> OutcomeDecision:
    match decision:
        case Denied(status):
            given = StatusDocument(message=status.message, reason=status.reason, code=status.code)
            return Denied(msgspec.structs.replace(denial(webhook, given), details=status.details))
        case Failed(kind, message):
            return Failed(kind, FAILURE_PREFIX + message)
        case _:
            return decision
