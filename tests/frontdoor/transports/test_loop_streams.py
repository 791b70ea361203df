"""Streams of the front door in the event loop: where they go, whom they believe, and servers that break the rules."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.controllers import Phase
from pratique.admission.reviews import Call, Deadline
from pratique.apimachinery.errors import ConfigurationError
from pratique.https.tls import keep_certificates_fresh
from pratique.rpc.http2 import Keepalive, StreamEndedError
from pratique.rpc.servers import RpcServer, ServerSettings
from pratique.rpc.streams import STREAMED_METHODS
from pratique.rpc.streams import StreamListener as ListenerMessage
from pratique_frontdoor.settings import FrontDoorSettings
from pratique_frontdoor.transports import loop_streams
from pratique_frontdoor.transports.channels import grpc_target
from pratique_frontdoor.transports.grpc import GrpcTransport
from pratique_frontdoor.transports.hosting_services import ServicesTls
from pratique_frontdoor.transports.loop_streams import ConnectError, StreamConnector
from support.certificate_mounts import Mount, bundle_of
from support.chains import pod_review
from support.services import controllers
from support.services.controllers import hosted
from support.services.loop_streams import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HOST,
    PING,
    PUSH,
    RESPONSE,
    RST,
    SECONDS,
    SETTINGS,
    Peer,
    echo,
    frame,
    headers,
    hostile_server,
    listening,
    message,
    opened,
)
from support.services.servers import VALIDATOR
from support.waiting import streams_to, until
from support.webhook_servers import closed_port

METHOD = STREAMED_METHODS[Phase.VALIDATE].stream_path


def code_after(*frames: bytes, close: bool = False) -> grpc.StatusCode:
    """How a stream ends whose server sends these."""

    async def script(peer: Peer) -> None:
        peer.send(*frames)
        if close:
            peer.writer.transport.abort()

    async def run() -> grpc.StatusCode:
        async with hostile_server(script) as port, opened(port) as stream:
            with contextlib.suppress(StreamEndedError):
                while await asyncio.wait_for(stream.read(), SECONDS) is not grpc.aio.EOF:  # type: ignore[attr-defined]
                    pass
            return await stream.code()

    return asyncio.run(run())


OPEN = headers(RESPONSE)
STATUS = grpc.StatusCode


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([headers(RESPONSE | {"grpc-status": "0"}, flags=END_HEADERS | END_STREAM)], STATUS.OK),
        ([headers(RESPONSE | {"grpc-status": "12"}, flags=END_HEADERS | END_STREAM)], STATUS.UNIMPLEMENTED),
        ([OPEN, headers({"grpc-status": "7"}, flags=END_HEADERS | END_STREAM)], STATUS.PERMISSION_DENIED),
        ([OPEN, headers({"grpc-status": "99"}, flags=END_HEADERS | END_STREAM)], STATUS.UNKNOWN),
        ([OPEN, headers({"x": "y"}, flags=END_HEADERS | END_STREAM)], STATUS.UNKNOWN),
        ([OPEN, frame(DATA, END_STREAM, 1)], STATUS.UNKNOWN),
        ([headers({":status": "503"})], STATUS.UNAVAILABLE),
        ([headers({":status": "404"})], STATUS.UNIMPLEMENTED),
        ([headers({":status": "200", "content-type": "text/html"})], STATUS.UNKNOWN),
        ([headers(RESPONSE | {"grpc-encoding": "gzip"})], STATUS.INTERNAL),
        ([frame(RST, 0, 1, bytes((0, 0, 0, 7)))], STATUS.UNAVAILABLE),
        ([frame(RST, 0, 1, bytes((0, 0, 0, 8)))], STATUS.CANCELLED),
        ([frame(RST, 0, 1, bytes((0, 0, 0, 11)))], STATUS.RESOURCE_EXHAUSTED),
        ([frame(RST, 0, 1, bytes((0, 0, 0, 2)))], STATUS.INTERNAL),
        ([frame(GOAWAY, 0, 0, bytes(8))], STATUS.UNAVAILABLE),
        ([OPEN, frame(DATA, 0, 1, message(b"x", flag=1))], STATUS.INTERNAL),
        ([OPEN, frame(DATA, 0, 1, b"\0\x7f\xff\xff\xff")], STATUS.RESOURCE_EXHAUSTED),
        ([OPEN, frame(DATA, END_STREAM, 1, b"\0\0\0\0\x09half")], STATUS.INTERNAL),
        ([frame(DATA, 0, 1, message(b"early"))], STATUS.UNAVAILABLE),
        ([OPEN, frame(DATA, 0, 3, message(b"not asked for"))], STATUS.UNAVAILABLE),
        ([frame(PUSH, END_HEADERS, 1, bytes((0, 0, 0, 2)))], STATUS.UNAVAILABLE),
        ([OPEN, *[frame(PING, 0, 0, bytes(8))] * 20_000], STATUS.UNAVAILABLE),
        ([headers(RESPONSE, flags=0), *[frame(CONTINUATION, 0, 1, bytes(900))] * 50], STATUS.UNAVAILABLE),
        ([b"HTTP/1.1 400 Bad Request\r\n\r\n"], STATUS.UNAVAILABLE),
    ],
    ids=[
        "OK without messages",
        "a status without messages",
        "a status after headers",
        "a number that is no status",
        "trailers without a status",
        "an end without a status",
        "HTTP 503",
        "HTTP 404",
        "a web page",
        "compression",
        "a refused stream",
        "a cancelled stream",
        "a stream that asks for calm",
        "another reset",
        "a goaway that refuses the stream",
        "a compressed message",
        "a message that is too long",
        "half a message",
        "data before headers",
        "data on another stream",
        "a pushed stream",
        "a flood of pings",
        "headers that never end",
        "HTTP/1.1",
    ],
)
def test_a_stream_ends_with_a_code_when_its_server_sends(frames: list[bytes], code: grpc.StatusCode) -> None:
    assert code_after(*frames) is code


def test_a_connection_that_breaks_is_unavailable() -> None:
    assert code_after(OPEN, close=True) is STATUS.UNAVAILABLE


@given(st.lists(st.one_of(st.binary(max_size=60), st.sampled_from([OPEN, frame(SETTINGS)])), max_size=6))
def test_whatever_a_server_sends_the_stream_ends(sent: list[bytes]) -> None:
    assert code_after(*sent, close=True) is not STATUS.OK


def test_a_server_that_falls_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_streams, "_KEEPALIVE", Keepalive(0.1, 0.1))
    assert code_after(OPEN) is STATUS.UNAVAILABLE


@pytest.mark.parametrize("server", ["is silent", "is closed", "ends connections", "accepts no streams"])
def test_a_listener_cannot_be_used_that(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_streams, "_CONNECT_SECONDS", 0.3)

    writers: list[asyncio.StreamWriter] = []

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        if server == "ends connections":
            writer.close()
        if server == "accepts no streams":
            writer.write(frame(SETTINGS, 0, 0, bytes((0, 3, 0, 0, 0, 0))))

    async def run() -> None:
        listener = await asyncio.start_server(serve, HOST, 0)
        connector = StreamConnector(None, "", None)
        with closed_port() as closed:
            port = closed if server == "is closed" else listener.sockets[0].getsockname()[1]
            with pytest.raises(ConnectError):
                await connector.open(f"ipv4:{HOST}:1", ListenerMessage(port=port), METHOD)
        listener.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("target", "listener"),
    [
        ("ipv4:127.0.0.1:1", {"port": 0}),
        ("ipv4:127.0.0.1:1", {"port": -1}),
        ("ipv4:127.0.0.1:1", {"port": 65_536}),
        ("unix:/tmp/some", {"port": 1}),
        ("ipv4:127.0.0.1:1", {"socket_name": "../../run/docker.sock"}),
        ("ipv4:127.0.0.1:1", {"socket_name": "/run/docker.sock"}),
        ("ipv4:127.0.0.1:1", {"socket_name": ".sock"}),
    ],
)
def test_a_service_cannot_send_the_front_door_to(
    target: str, listener: dict[str, Any], tmp_path: Path
) -> None:
    async def run() -> None:
        connector = StreamConnector(None, "", tmp_path)
        with pytest.raises(ConnectError):
            await connector.open(target, ListenerMessage(**listener), METHOD)

    asyncio.run(run())


# Replicas


@contextlib.asynccontextmanager
async def client_of(address: str, connector: StreamConnector) -> AsyncIterator[GrpcTransport]:
    transport = GrpcTransport(grpc_target([address]), streamed=Phase.VALIDATE, connector=connector)
    try:
        await streams_to(transport, 1)
        yield transport
    finally:
        await transport.close()


async def until_moved(transport: GrpcTransport) -> None:
    async def moved() -> bool:
        return bool(transport.replicas) and all(replica.in_loop for replica in transport.replicas)

    await until(SECONDS, moved)


async def ask(transport: GrpcTransport) -> None:
    await transport.validate(pod_review(), [Call("c")], Deadline.after(SECONDS))


def server_of(**given: Any) -> RpcServer:
    services = VALIDATOR.services([hosted("c", controllers.allowing)])
    return RpcServer(services, ServerSettings(port=0, drain_seconds=0, **given))


@contextlib.asynccontextmanager
async def running(server: RpcServer) -> AsyncIterator[str]:
    try:
        yield await server.start()
    finally:
        await server.stop()


def test_calls_go_over_a_unix_socket_that_is_removed_at_the_end(tmp_path: Path) -> None:
    def files() -> list[Path]:
        return list(tmp_path.iterdir())

    async def run() -> None:
        async with running(server_of(stream_socket_dir=tmp_path)) as address:
            assert [file.is_socket() for file in files()] == [True]
            async with client_of(address, StreamConnector(None, "", tmp_path)) as client:
                await until_moved(client)
                await ask(client)

    tmp_path.chmod(0o700)
    asyncio.run(run())
    assert files() == []


def test_a_folder_of_sockets_must_be_closed_to_others(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)

    async def run() -> None:
        with pytest.raises(ConfigurationError, match="open to its owner alone"):
            await server_of(stream_socket_dir=tmp_path).start()

    asyncio.run(run())


def test_sockets_are_not_for_services_that_have_a_port_for_streams(tmp_path: Path) -> None:
    async def run() -> None:
        with pytest.raises(ConfigurationError, match="instead of --stream-port"):
            await server_of(stream_socket_dir=tmp_path, stream_port=0).start()

    asyncio.run(run())


def test_calls_stay_with_grpcio_while_the_listener_cannot_be_reached(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: Any) -> Any:
        raise OSError(111, "Connection refused")

    async def run() -> None:
        async with running(server_of(stream_port=0)) as address:
            monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", refuse, raising=False)
            async with client_of(address, StreamConnector(None, "", None)) as client:
                await until(SECONDS, lambda: _value(caplog.records))
                await ask(client)
                assert not any(replica.in_loop for replica in client.replicas)

    asyncio.run(run())
    assert "Connection refused" in [getattr(record, "reason", "") for record in caplog.records]


async def _value(value: object) -> object:
    return value


def test_a_stream_that_breaks_is_replaced_and_no_call_is_lost() -> None:
    async def run() -> None:
        server = server_of(stream_port=0)
        async with running(server) as address, client_of(address, StreamConnector(None, "", None)) as client:
            for _ in range(3):
                await until_moved(client)
                asking = asyncio.gather(*(ask(client) for _ in range(20)))
                await asyncio.sleep(0)
                assert server.stream_listener is not None
                for connection in tuple(server.stream_listener.connections):
                    connection.abort()
                await asking

    asyncio.run(run())


# TLS


@dataclasses.dataclass
class Sides:
    """The files of a service and of the front door, with authorities of their own."""

    service: Mount
    door: Mount
    service_authority: trustme.CA
    door_authority: trustme.CA


@pytest.fixture(name="sides")
def _sides(tmp_path: Path) -> Sides:
    ours, theirs = trustme.CA(), trustme.CA()
    return Sides(
        Mount.of(tmp_path / "service", ours.issue_cert(HOST, "validator"), theirs),
        Mount.of(tmp_path / "door", theirs.issue_cert("door.example.com"), ours),
        ours,
        theirs,
    )


@contextlib.asynccontextmanager
async def secured(sides: Sides, **given: Any) -> AsyncIterator[tuple[RpcServer, ListenerMessage]]:
    server = server_of(
        tls_cert_file=sides.service.certificate,
        tls_private_key_file=sides.service.key,
        client_ca_file=sides.service.authorities,
        stream_port=0,
        **given,
    )
    async with running(server):
        assert server.stream_address is not None
        yield server, ListenerMessage(port=server.stream_address.port)


def tls_of(sides: Sides) -> ServicesTls:
    tls = ServicesTls.of(
        FrontDoorSettings(
            services_ca_file=sides.door.authorities,
            services_cert_file=sides.door.certificate,
            services_private_key_file=sides.door.key,
        )
    )
    assert tls is not None
    return tls


async def greeted(connector: StreamConnector, listener: ListenerMessage) -> grpc.StatusCode | None:
    """Open a stream, and return None if the service greets, or the code of the end."""
    stream = await connector.open(f"ipv4:{HOST}:1", listener, METHOD)
    try:
        await asyncio.wait_for(stream.read(), SECONDS)
    except StreamEndedError as error:
        return error.code()
    else:
        return None
    finally:
        stream.cancel()


@pytest.mark.parametrize("name", ["", "validator"])
def test_both_sides_prove_who_they_are(sides: Sides, name: str) -> None:
    async def run() -> None:
        async with secured(sides, client_allowed_names=("door.example.com",)) as (_, listener):
            connector = StreamConnector(tls_of(sides).context, name, None)
            assert await greeted(connector, listener) is None

    asyncio.run(run())


def test_a_client_without_an_allowed_name_is_rejected(sides: Sides) -> None:
    async def run() -> None:
        async with secured(sides, client_allowed_names=("another.example.com",)) as (_, listener):
            connector = StreamConnector(tls_of(sides).context, "", None)
            assert await greeted(connector, listener) is STATUS.PERMISSION_DENIED

    asyncio.run(run())


async def refused(connector: StreamConnector, listener: ListenerMessage) -> bool:
    """Tell whether the handshake fails. With TLS 1.3, a client learns of its own refusal only after it."""
    try:
        return await greeted(connector, listener) is STATUS.UNAVAILABLE
    except ConnectError:
        return True


@pytest.mark.parametrize("fault", ["no TLS", "another name", "another authority", "an unknown client"])
def test_nothing_is_sent_to_or_taken_from(sides: Sides, fault: str) -> None:
    async def run() -> None:
        async with secured(sides) as (_, listener):
            if fault == "another authority":
                sides.door.swap({"ca.crt": bundle_of(trustme.CA())})
            if fault == "an unknown client":
                stranger = Mount.of(sides.door.folder / "stranger", trustme.CA().issue_cert("door"))
                sides.door.swap(
                    {"tls.crt": stranger.certificate.read_bytes(), "tls.key": stranger.key.read_bytes()}
                )
            context = None if fault == "no TLS" else tls_of(sides).context
            name = "mutator" if fault == "another name" else ""
            assert await refused(StreamConnector(context, name, None), listener)

    asyncio.run(run())


def test_a_server_that_does_not_choose_http2_is_left(sides: Sides) -> None:
    async def run() -> None:
        async with listening(tls=lambda: context) as (_, port):
            with pytest.raises(ConnectError, match="HTTP/2"):
                await StreamConnector(tls_of(sides).context, "validator", None).open(
                    f"ipv4:{HOST}:1", ListenerMessage(port=port), METHOD
                )

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sides.service.certificate, sides.service.key)
    asyncio.run(run())


def test_new_files_are_used_for_new_handshakes_and_open_streams_stay(sides: Sides) -> None:
    another = trustme.CA()

    async def run() -> None:
        async with secured(sides) as (server, listener):
            assert server.tls is not None
            reloading = asyncio.ensure_future(keep_certificates_fresh(server.tls.files, poll_seconds=0.05))
            connector = StreamConnector(tls_of(sides).context, "validator", None)
            stream = await connector.open(f"ipv4:{HOST}:1", listener, METHOD)
            await asyncio.wait_for(stream.read(), SECONDS)
            issued = Mount.of(sides.service.folder / "next", another.issue_cert("validator"))
            sides.service.swap(
                {"tls.crt": issued.certificate.read_bytes(), "tls.key": issued.key.read_bytes()}
            )

            async def old_one_is_refused() -> bool:
                return await refused(connector, listener)

            await until(SECONDS, old_one_is_refused)
            sides.door.swap({"ca.crt": bundle_of(another)})
            renewed = StreamConnector(tls_of(sides).context, "validator", None)
            assert await greeted(renewed, listener) is None
            assert stream.status is None  # the first one is open
            stream.cancel()
            reloading.cancel()

    asyncio.run(run())


def test_an_authority_that_is_removed_ends_access(sides: Sides) -> None:
    async def run() -> None:
        async with secured(sides) as (_, listener):
            connector = StreamConnector(tls_of(sides).context, "validator", None)
            assert await greeted(connector, listener) is None
            sides.service.swap({"ca.crt": bundle_of(trustme.CA())})

            async def gone() -> bool:
                return await refused(connector, listener)

            await until(SECONDS, gone)

    asyncio.run(run())


def test_messages_pass_over_tls_in_both_directions(sides: Sides) -> None:
    async def run() -> None:
        server = server_of(tls_cert_file=sides.service.certificate, tls_private_key_file=sides.service.key)
        assert server.tls is not None
        async with listening(echo, path=METHOD, tls=server.tls.context) as (_, port):
            connector = StreamConnector(tls_of(sides).context, "", None)
            stream = await connector.open(f"ipv4:{HOST}:1", ListenerMessage(port=port), METHOD)
            for length in (1, 50_000, 3_000_000):
                writing = asyncio.ensure_future(stream.write(bytes(length)))
                assert len(await asyncio.wait_for(stream.read(), SECONDS)) == length
                await writing
            stream.cancel()

    asyncio.run(run())
