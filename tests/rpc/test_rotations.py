"""Certificates of services change in all the ways in which files do, and no call fails when they do."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import grpc
import pytest
import trustme

from pratique.admission.results import ALLOWED
from pratique.admission.reviews import Call
from pratique.rpc.servers import RpcServer, ServerSettings
from support.certificate_mounts import WAYS, Mount, Rotation, Step, bundle_of, chain_of, key_of
from support.services import controllers
from support.services.controllers import hosted
from support.services.reviews import review_of
from support.services.servers import MUTATOR
from support.waiting import until

SECONDS = 10  # in which a new certificate has to be shown
PER_SECOND = 50
HOST = "127.0.0.1"


@pytest.fixture(name="authorities", scope="module")
def _authorities() -> tuple[trustme.CA, trustme.CA]:
    return trustme.CA(), trustme.CA()


async def shown(address: str, context: ssl.SSLContext) -> bytes:
    """The certificate that a new connection is shown."""
    host, _, port = address.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return certificate


@contextlib.asynccontextmanager
async def load(address: str, credentials: grpc.ChannelCredentials) -> AsyncIterator[list[object]]:
    """Call at an even pace, half of the calls on a connection that stays and half on new ones. None may fail."""
    decisions: list[object] = []

    async def ask(channel: grpc.aio.Channel) -> None:
        [outcome] = await MUTATOR.ask(channel, review_of(), [Call("c")], seconds=SECONDS)
        decisions.append(outcome.decision)

    async def ask_anew() -> None:
        own = (("grpc.use_local_subchannel_pool", 1),)
        async with grpc.aio.secure_channel(address, credentials, options=own) as channel:
            await ask(channel)

    async def run(channel: grpc.aio.Channel) -> None:
        async with asyncio.TaskGroup() as calls:
            while not ending.is_set():
                calls.create_task(ask(channel))
                calls.create_task(ask_anew())
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ending.wait(), 2 / PER_SECOND)

    ending = asyncio.Event()
    async with grpc.aio.secure_channel(address, credentials) as channel, asyncio.TaskGroup() as group:
        group.create_task(run(channel))
        yield decisions
        seen = len(decisions)

        async def more() -> bool:
            return len(decisions) >= seen + 10

        await until(SECONDS, more)
        ending.set()
    assert set(decisions) == {ALLOWED}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_new_certificate_is_served_without_a_failed_call(
    way: Callable[[Rotation], Iterator[Step]], tmp_path: Path, authorities: tuple[trustme.CA, trustme.CA]
) -> None:
    first, second = authorities
    mount = Mount.of(tmp_path / "tls", first.issue_cert(HOST), first, second)
    signing = second if way is Rotation.of_another_authority else first
    asyncio.run(rotate(way(Rotation(mount, signing.issue_cert(HOST))), mount, first))


async def rotate(steps: Iterator[Step], mount: Mount, authority: trustme.CA) -> None:
    client = authority.issue_cert("door.example.com")
    trusted = mount.authorities.read_bytes()
    credentials = grpc.ssl_channel_credentials(trusted, key_of(client), chain_of(client))
    context = ssl.create_default_context(cadata=trusted.decode())
    context.set_alpn_protocols(["h2"])
    client.configure_cert(context)
    server = RpcServer(
        MUTATOR.services([hosted("c", controllers.allowing)]),
        ServerSettings(
            tls_cert_file=mount.certificate,
            tls_private_key_file=mount.key,
            client_ca_file=mount.authorities,
            drain_seconds=0,
        ),
    )
    address = await server.start()
    assert server.tls is not None
    pair = server.tls.files[0]
    try:
        before = await shown(address, context)

        async def changed() -> bool:
            return await shown(address, context) != before

        async def failed() -> bool:
            return bool(pair.failure)

        async def works() -> bool:
            return not pair.failure

        async with load(address, credentials):
            for step in steps:
                step.change()
                if step.usable:
                    await until(SECONDS, changed)
                else:
                    await until(SECONDS, failed)
                    assert await shown(address, context) == before
            await until(SECONDS, works)
    finally:
        await server.stop()


def test_clients_of_a_new_authority_can_call_once_it_is_trusted(
    tmp_path: Path, authorities: tuple[trustme.CA, trustme.CA]
) -> None:
    old, new = authorities
    mount = Mount.of(tmp_path / "tls", old.issue_cert(HOST), old)
    client = new.issue_cert("door.example.com")
    credentials = grpc.ssl_channel_credentials(bundle_of(old), key_of(client), chain_of(client))

    async def serve() -> None:
        settings = ServerSettings(
            tls_cert_file=mount.certificate,
            tls_private_key_file=mount.key,
            client_ca_file=mount.authorities,
            drain_seconds=0,
        )
        server = RpcServer(MUTATOR.services([hosted("c", controllers.allowing)]), settings)
        address = await server.start()

        async def let_in() -> bool:
            try:
                async with grpc.aio.secure_channel(address, credentials) as channel:
                    await MUTATOR.ask(channel, review_of(), [Call("c")], seconds=SECONDS)
            except grpc.aio.AioRpcError:
                return False
            return True

        try:
            assert not await let_in()
            mount.swap({"ca.crt": bundle_of(old, new)})
            await until(SECONDS, let_in)
        finally:
            await server.stop()

    asyncio.run(serve())
