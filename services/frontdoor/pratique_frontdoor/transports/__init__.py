"""Transports: the ways in which the chain asks somebody for outcomes.

One Protocol, three kinds: gRPC (the services of this suite, and anybody's that speaks ``proto/``), HTTPS (Kubernetes
webhooks) and in process (``pratique review`` and tests).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pratique.admission.results import Outcome
from pratique.admission.reviews import Call, Deadline, Review


class Transport(Protocol):
    """Asks controllers that live somewhere for their outcomes."""

    @property
    def endpoint(self) -> str:
        """Where it asks, for people: ``in-process``, ``grpc://…`` or ``https://…``."""

    async def mutate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Run mutating halves one after another, each on what the one before left.

        The list ends with the first outcome that is denied or failed.

        Raises:
            CallError: the call as a whole failed; its text is the reason, in Kubernetes' words where it has some.
        """

    async def validate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Run validating halves side by side; one outcome for each call, in their order.

        Raises:
            CallError: the call as a whole failed; its text is the reason, in Kubernetes' words where it has some.
        """

    async def close(self) -> None:
        """Let go of connections. No calls may follow."""
