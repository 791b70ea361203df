"""Health and reflection, as every client expects them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import grpc
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from pratique.admission.v1 import catalogue_service_pb2, catalogue_service_pb2_grpc
from pratique.rpc.servers import RpcServer, ServerSettings
from support.services import controllers
from support.services.controllers import hosted
from support.services.servers import KINDS, Kind, serving

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING

pytestmark = pytest.mark.parametrize("kind", KINDS, ids=str)


def offered(kind: Kind) -> list[str]:
    return [service.name for service in kind.services([])]


def on_channel(kind: Kind, test: Callable[[grpc.aio.Channel], Awaitable[None]]) -> None:
    async def run() -> None:
        async with serving(kind, hosted("c", controllers.allowing)) as channel:
            await test(channel)

    asyncio.run(run())


def test_every_service_and_the_server_are_healthy(kind: Kind) -> None:
    async def check(channel: grpc.aio.Channel) -> None:
        stub = health_pb2_grpc.HealthStub(channel)
        for name in ("", *offered(kind)):
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=60)
            assert answer.status == SERVING

    on_channel(kind, check)


def test_the_health_of_an_unknown_service_is_not_found(kind: Kind) -> None:
    async def check(channel: grpc.aio.Channel) -> None:
        stub = health_pb2_grpc.HealthStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stub.Check(health_pb2.HealthCheckRequest(service="no.such.Service"), timeout=60)
        assert error.value.code() is grpc.StatusCode.NOT_FOUND

    on_channel(kind, check)


@contextlib.asynccontextmanager
async def draining(kind: Kind, drain_seconds: float = 0) -> AsyncIterator[tuple[RpcServer, grpc.aio.Channel]]:
    """A server whose end is awaited for half a minute, where nothing else ends it."""
    server = RpcServer(kind.services([]), ServerSettings(drain_seconds=drain_seconds, grace_seconds=30))
    try:
        async with grpc.aio.insecure_channel(await server.start()) as channel:
            yield server, channel
    finally:
        await server.stop()


def test_a_health_watch_sees_the_shutdown_and_does_not_delay_it(kind: Kind) -> None:
    async def run() -> list[int]:
        async with draining(kind, drain_seconds=0.2) as (server, channel):
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=60)
            answers = aiter(watch)
            heard = [(await anext(answers)).status]
            end = asyncio.ensure_future(server.drain())
            heard += [answer.status async for answer in answers]
            await asyncio.wait_for(end, 120)
        return heard

    assert asyncio.run(run()) == [SERVING, NOT_SERVING]


def test_an_open_reflection_stream_does_not_delay_the_shutdown(kind: Kind) -> None:
    async def run() -> None:
        async with draining(kind) as (server, channel):
            stream = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(timeout=20)
            await stream.write(reflection_pb2.ServerReflectionRequest(list_services=""))
            assert (await stream.read()).HasField("list_services_response")
            await asyncio.wait_for(server.drain(), 120)

    asyncio.run(run())


def test_a_reflection_answer_in_transit_does_not_delay_the_shutdown(kind: Kind) -> None:
    async def run() -> None:
        for _ in range(60):  # of which two hung where the end came while gRPC had yet to see that it had left
            async with draining(kind) as (server, channel):
                stream = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(timeout=20)
                await stream.write(reflection_pb2.ServerReflectionRequest(list_services=""))
                await stream.read()
                await asyncio.wait_for(server.drain(), 120)

    asyncio.run(run())


async def reflected(
    channel: grpc.aio.Channel, request: reflection_pb2.ServerReflectionRequest
) -> reflection_pb2.ServerReflectionResponse:
    stream = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(
        iter([request]), timeout=5
    )
    return await anext(aiter(stream))


def test_reflection_lists_every_service(kind: Kind) -> None:
    async def check(channel: grpc.aio.Channel) -> None:
        answer = await reflected(channel, reflection_pb2.ServerReflectionRequest(list_services=""))
        assert {service.name for service in answer.list_services_response.service} == {
            *offered(kind),
            "grpc.health.v1.Health",
            "grpc.reflection.v1alpha.ServerReflection",
        }

    on_channel(kind, check)


def test_reflection_serves_the_files_of_every_service(kind: Kind) -> None:
    async def check(channel: grpc.aio.Channel) -> None:
        for name in offered(kind):
            request = reflection_pb2.ServerReflectionRequest(file_containing_symbol=name)
            answer = await reflected(channel, request)
            files = [
                descriptor_pb2.FileDescriptorProto.FromString(raw)
                for raw in answer.file_descriptor_response.file_descriptor_proto
            ]
            names = {f"{file.package}.{service.name}" for file in files for service in file.service}
            assert name in names

    on_channel(kind, check)


def test_describe_lists_the_hosted_controllers(kind: Kind) -> None:
    async def check(channel: grpc.aio.Channel) -> None:
        stub = catalogue_service_pb2_grpc.CatalogueServiceStub(channel)
        answer = await stub.Describe(catalogue_service_pb2.DescribeRequest(), timeout=60)
        [described] = answer.controllers
        phase = {"mutator": "PHASE_MUTATE", "validator": "PHASE_VALIDATE"}[kind.name]
        assert (described.name, described.summary) == ("c", "Does what c does.")
        assert list(described.phases) == [catalogue_service_pb2.Phase.Value(phase)]
        assert [list(rule.resources) for rule in described.rules] == [["*/*"]]

    on_channel(kind, check)
