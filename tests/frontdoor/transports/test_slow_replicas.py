"""A slow replica among others: it gets few calls, then none, comes back, and decides nothing otherwise."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
from collections.abc import AsyncIterator

import pytest

from pratique.admission.controllers import Phase
from pratique.admission.results import Allowed, Answer, Denied, allow, deny
from pratique.admission.reviews import Call, Deadline, Review
from pratique.apimachinery.errors import CallError
from pratique.apimachinery.json_values import Document
from pratique.configuration.input_digests import InputDigests, RecentInputs
from pratique.rpc.servers import RpcServer, ServerSettings
from pratique_frontdoor.http.metrics import ServiceCallMetrics
from pratique_frontdoor.transports.channels import grpc_target
from pratique_frontdoor.transports.grpc import GrpcTransport
from pratique_frontdoor.transports.hosting_services import HostingService
from support.chains import pod_review
from support.services.controllers import hosted
from support.services.servers import VALIDATOR
from support.waiting import streams_to, until

both_ways = pytest.mark.parametrize("streams", [True, False], ids=["stream", "unary"])
FORBIDDEN = pod_review().with_object(Document.from_data({"metadata": {"name": "forbidden"}}))


class Validator:
    """A validator that denies what is forbidden, after a set delay."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.got = 0

    async def half(self, review: Review) -> Answer:
        self.got += 1
        await asyncio.sleep(self.seconds)
        return deny("no") if review.object["metadata"].get("name") == "forbidden" else allow()

    @contextlib.asynccontextmanager
    async def serving(self, **settings: int) -> AsyncIterator[str]:
        services = VALIDATOR.services([hosted("c", self.half, trusted=True)])
        server = RpcServer(services, ServerSettings(port=0, drain_seconds=0, **settings))  # type: ignore[arg-type]  # all of them are int
        try:
            yield await server.start()
        finally:
            await server.stop()


@contextlib.asynccontextmanager
async def two(*, streams: bool, slow_seconds: float = 0.2) -> AsyncIterator[tuple[Validator, GrpcTransport]]:
    """Two validators, the first of which can be slow, and the way to them."""
    first, second = Validator(), Validator()
    async with first.serving() as a, second.serving() as b:
        client = GrpcTransport(
            grpc_target([a, b]), streamed=Phase.VALIDATE, streams=streams, slow_seconds=slow_seconds
        )
        try:
            await streams_to(client, 2)
            yield first, client
        finally:
            await client.close()


async def decide(client: GrpcTransport) -> None:
    """Have one review allowed and another one denied."""
    for review, decision in ((pod_review(), Allowed), (FORBIDDEN, Denied)):
        [outcome] = await client.validate(review, [Call("c")], Deadline.after(30))
        assert isinstance(outcome.decision, decision)


def shown(client: GrpcTransport) -> tuple[list[str], dict[str, list[float]]]:
    """The warnings of readiness, and the metrics of each replica by the end of their names."""
    service = HostingService("validator", client, Phase.VALIDATE, frozenset({"c"}))
    metrics = ServiceCallMetrics()
    digests = InputDigests.of("", "", "")
    metrics.show_services([service], RecentInputs(digests, None, 0))
    values = {
        item.name.rpartition("replica_")[2]: sorted(sample.value for sample in item.samples)
        for item in metrics.collect()
        if "replica_" in item.name
    }
    return service.excluded(), values


def excluded(client: GrpcTransport) -> int:
    return sum(replica.load.excluded for replica in client.replicas)


async def decide_until(client: GrpcTransport, callers: int, wanted: int) -> None:
    """Decide until so many replicas are left out."""
    async with asyncio.timeout(90):
        while excluded(client) != wanted:
            await asyncio.gather(*(decide(client) for _ in range(callers)))


@pytest.mark.parametrize(("callers", "streams"), [(8, True), (1, False)], ids=["stream", "unary"])
def test_a_slow_replica_is_excluded_and_returns_without_a_wrong_decision(
    callers: int, caplog: pytest.LogCaptureFixture, *, streams: bool
) -> None:
    async def run() -> None:
        async with two(streams=streams) as (first, client):
            for _ in range(20):
                await decide(client)
            first.seconds = 0.6
            await decide_until(client, callers, 1)
            [warned], values = shown(client)
            assert warned.startswith("validator at grpc://127.0.0.1:")
            assert warned.endswith(" is much slower than others, and excluded for now")
            assert (values["left_out"], values["exclusions"]) == ([0, 1], [0, 1])
            first.seconds = 0
            await decide_until(client, callers, 0)
            warnings, values = shown(client)
            assert warnings == []
            assert values["left_out"] == values["calls_in_flight"] == [0, 0]
            assert values["exclusions"][-1] >= 1
            before = first.got
            await asyncio.gather(*(decide(client) for _ in range(50)))
            assert first.got > before

    with caplog.at_level(logging.INFO, "pratique_frontdoor"):
        asyncio.run(run())
    messages = [record.message for record in caplog.records if "replica" in record.message]
    assert messages == [
        "a replica is excluded: it is much slower than others",
        "an excluded replica is used again",
    ]


@both_ways
def test_a_slow_replica_gets_few_calls_even_without_exclusion(*, streams: bool) -> None:
    async def run() -> int:
        async with two(streams=streams, slow_seconds=0) as (first, client):
            first.seconds = 0.5  # far more than a call takes on a busy machine
            reviews = iter(range(200))

            async def caller() -> None:
                for _ in reviews:
                    await decide(client)

            await asyncio.gather(*(caller() for _ in range(8)))
            assert excluded(client) == 0
            return first.got

    assert asyncio.run(run()) < 100  # of 400, where each in turn would have given it 200


@both_ways
def test_a_replica_that_refuses_immediately_does_not_attract_all_calls(*, streams: bool) -> None:
    shedding, taking = Validator(), Validator()
    shedding.seconds, taking.seconds = 1, 0.02  # the one that it takes keeps it from taking another
    refused: collections.Counter[bool] = collections.Counter()

    async def run() -> None:
        async with shedding.serving(max_concurrent_calls=1) as a, taking.serving() as b:
            client = GrpcTransport(grpc_target([a, b]), streamed=Phase.VALIDATE, streams=streams)
            try:
                await streams_to(client, 2)

                async def caller() -> None:
                    for _ in range(20):
                        try:
                            await client.validate(pod_review(), [Call("c")], Deadline.after(30))
                            refused[False] += 1
                        except CallError:
                            refused[True] += 1

                await asyncio.gather(*(caller() for _ in range(8)))
                assert excluded(client) == 0

                async def settled() -> bool:
                    return all(replica.load.in_flight == 0 for replica in client.replicas)

                await until(120, settled)
            finally:
                await client.close()

    asyncio.run(run())
    assert refused[False] > refused[True] > 0
