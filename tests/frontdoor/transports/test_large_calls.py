"""Calls with large requests: one whose replica broke off is made again on another, as small ones are."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from chaos.links import linked
from pratique.admission.controllers import Phase
from pratique.admission.reviews import Call, Deadline
from pratique_frontdoor.transports.channels import grpc_target
from pratique_frontdoor.transports.grpc import GrpcTransport
from support.chains import pod_review
from support.services import controllers
from support.services.faulty_services import CONTROLLER, hosting
from support.services.servers import VALIDATOR

PATIENCE_SECONDS = 120
CALL_SECONDS = 100


@contextlib.asynccontextmanager
async def transport(*addresses: str, streamed: Phase | None) -> AsyncIterator[GrpcTransport]:
    opened = GrpcTransport(grpc_target(list(addresses)), streamed=streamed)
    try:
        yield opened
    finally:
        await opened.close()


async def answers(size: int, streamed: Phase | None) -> int:
    """Make calls, break the connection to a replica during one, and return how many were answered."""
    review = pod_review({"metadata": {"annotations": {"large": "x" * size}}})
    began = asyncio.Event()

    calls = []
    async with (
        hosting(VALIDATOR, controllers.hanging_once(began)) as address,
        linked(int(address.rpartition(":")[2])) as link,
        hosting(VALIDATOR, controllers.allowing) as other,
        transport(f"127.0.0.1:{link.port}", other, streamed=streamed) as client,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        beginning = asyncio.ensure_future(began.wait())
        while not began.is_set():  # one at a time: a busy machine would drown in large ones
            call = client.validate(review, [Call(CONTROLLER)], Deadline.after(CALL_SECONDS))
            calls.append(asyncio.ensure_future(call))
            await asyncio.wait([calls[-1], beginning], return_when=asyncio.FIRST_COMPLETED)
        await link.close()
        return len(await asyncio.gather(*calls))


@pytest.mark.parametrize("streamed", [None, Phase.VALIDATE], ids=["unary", "stream"])
@pytest.mark.parametrize("size", [1_000, 100_000, 300_000, 6_000_000])
def test_a_large_call_is_retried_when_its_replica_breaks_off(size: int, streamed: Phase | None) -> None:
    assert asyncio.run(answers(size, streamed)) > 0
