"""Transports: the ways in which the chain calls controllers and webhooks.

One Protocol has three kinds of implementations: gRPC (the services of this suite, and any service that implements
``proto/``), HTTPS (Kubernetes webhooks) and in process (``pratique review`` and tests).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pratique.admission.results import Outcome
from pratique.admission.reviews import Call, Deadline, Review


class Transport(Protocol):
    """Calls controllers for their outcomes."""

    @property
    def endpoint(self) -> str:
        """Where it calls, for display: ``in-process``, ``grpc://…`` or ``https://…``."""

    async def mutate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Run mutating controllers one after another, each on the object as the one before left it.

        The outcomes end with the first that is denied or failed.

        Raises:
            CallError: the call as a whole failed; the message is Kubernetes' where it has one.
        """

    async def validate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Run validating controllers concurrently; return one outcome for each call, in their order.

        Raises:
            CallError: the call as a whole failed; the message is Kubernetes' where it has one.
        """

    async def close(self) -> None:
        """Close connections. No calls may follow."""


class ReplicatedTransport(Transport, Protocol):
    """Calls the replicas of a service."""

    def usable_replicas(self, digest: str, *, idle: bool = False) -> int:
        """Return how many replicas decide by the inputs of a digest; with ``idle``, those without a call in flight."""

    async def validate(
        self,
        review: Review,
        calls: Sequence[Call],
        deadline: Deadline,
        *,
        sent_to: set[str] | None = None,
        expected_seconds: float = 0.0,
    ) -> Sequence[Outcome]:
        """Run validating controllers, as :meth:`Transport.validate` does.

        Args:
            review: The review.
            calls: The controllers.
            deadline: The deadline of the review.
            sent_to: The endpoints that the other shares of a divided review were sent to, and where this one is added;
                a share goes to another replica if there are enough.
            expected_seconds: How long the controllers usually take; the call is late only after several times that.

        Raises:
            CallError: the call as a whole failed; the message is Kubernetes' where it has one.
        """
