"""Where servers listen, and what they say where they cannot."""

from __future__ import annotations

import asyncio
import socket

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from pratique.apimachinery.errors import ConfigurationError
from pratique.rpc.servers import RpcServer, ServerSettings
from support.services.servers import MUTATOR


async def start_and_ask(settings: ServerSettings) -> str:
    server = RpcServer(MUTATOR.services([]), settings)
    try:
        address = await server.start()
        async with grpc.aio.insecure_channel(address) as channel:
            await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=60)
        return address
    finally:
        await server.stop()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_free_port_is_picked_and_returned(host: str) -> None:
    address = asyncio.run(start_and_ask(ServerSettings(host=host)))
    assert address.startswith(f"{host}:")
    assert int(address.rpartition(":")[2]) > 0


def test_the_error_says_that_a_port_is_taken(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            ConfigurationError, match=f"^cannot listen on 127.0.0.1:{port}: Address already in use$"
        ):
            asyncio.run(start_and_ask(ServerSettings(port=port)))
    assert capfd.readouterr().err == ""


def test_two_servers_do_not_share_a_port() -> None:
    async def run() -> None:
        first = RpcServer(MUTATOR.services([]), ServerSettings())
        port = int((await first.start()).rpartition(":")[2])
        try:
            with pytest.raises(ConfigurationError, match="Address already in use"):
                await start_and_ask(ServerSettings(port=port))
        finally:
            await first.stop()

    asyncio.run(run())


@pytest.mark.parametrize("host", ["203.0.113.9", "no.such.host.invalid"])
def test_the_error_names_an_address_of_another_machine(host: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^cannot listen on {host}:0: "):
        asyncio.run(start_and_ask(ServerSettings(host=host)))


def test_clients_may_ping_every_four_seconds() -> None:
    # gRPC sends a client away that pings more often than the server has said; the front door's does every 4 s.
    from pratique.rpc import servers

    options = dict(servers._server_options(ServerSettings()))  # noqa: SLF001 - nothing else shows it within a test's time
    assert options["grpc.http2.min_ping_interval_without_data_ms"] <= 4_000
    assert options["grpc.keepalive_permit_without_calls"] == 1


def test_a_connection_ends_at_its_maximum_age_without_a_failed_call() -> None:
    async def run() -> None:
        server = RpcServer(MUTATOR.services([]), ServerSettings(max_connection_age_seconds=0.2))
        address = await server.start()
        try:
            async with grpc.aio.insecure_channel(address) as channel:
                ask = health_pb2_grpc.HealthStub(channel).Check
                for _ in range(3):
                    await ask(health_pb2.HealthCheckRequest(), timeout=60)
                    connected = grpc.ChannelConnectivity.READY
                    await asyncio.wait_for(channel.wait_for_state_change(connected), 120)
        finally:
            await server.stop()

    asyncio.run(run())
