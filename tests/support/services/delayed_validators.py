"""Validators that answer after a set delay, and transports that call them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from pratique.admission.controllers import Phase
from pratique.admission.results import Answer, allow
from pratique.admission.reviews import Review
from pratique.rpc.servers import RpcServer, ServerSettings
from pratique_frontdoor.transports.channels import grpc_target
from pratique_frontdoor.transports.grpc import GrpcTransport
from support.services.controllers import hosted
from support.services.servers import VALIDATOR
from support.waiting import streams_to


class DelayedValidator:
    """A validator that answers after a set delay."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.reviews: list[Review] = []
        self.cancelled = asyncio.Event()
        self.endpoint = ""
        """Its endpoint, while it is serving."""

    @property
    def first_attempts(self) -> int:
        """How many calls it got that no other replica had got before; a busy machine may add copies to them."""
        return sum(not review.is_retry for review in self.reviews)

    async def decide(self, review: Review) -> Answer:
        self.reviews.append(review)
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return allow()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        services = VALIDATOR.services([hosted("c", self.decide, trusted=True)])
        server = RpcServer(services, ServerSettings(port=0, drain_seconds=0, grace_seconds=0))
        try:
            address = await server.start()
            self.endpoint = f"grpc://{address}"
            yield address
        finally:
            await server.stop()


@contextlib.asynccontextmanager
async def calling(
    *validators: DelayedValidator, streams: bool = True, **options: Any
) -> AsyncIterator[GrpcTransport]:
    """The way to these validators."""
    async with contextlib.AsyncExitStack() as serving:
        addresses = [await serving.enter_async_context(validator.serving()) for validator in validators]
        client = GrpcTransport(grpc_target(addresses), streamed=Phase.VALIDATE, streams=streams, **options)
        try:
            await streams_to(client, len(validators))
            yield client
        finally:
            await client.close()
