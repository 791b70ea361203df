"""gRPC servers: TLS, limits, health, reflection, start and graceful shutdown, shared by all services."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import functools
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import grpc
import msgspec
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from pratique.apimachinery.errors import ConfigurationError
from pratique.configuration.input_digests import RecentInputs
from pratique.configuration.settings import Isolation
from pratique.https.tls import (
    CertificateAuthorities,
    ClientCertificateAuthenticator,
    KeyPair,
    KeyPairFiles,
    ReloadedCertificate,
    keep_certificates_fresh,
    read_authorities,
    read_key_pair,
)
from pratique.rpc.handlers import (
    BytesHandler,
    ConcurrencyLimit,
    Context,
    Interceptor,
    MessageReceiver,
    intercepted,
    receiving_handler,
    require_known_client,
)
from pratique.rpc.streams import OpenStreams, StreamedCalls, StreamedMethod, StreamLimit

PAIR_FLAGS = ("--tls-cert-file", "--tls-private-key-file")


class ServerTls:
    """The TLS of one service: version 1.2 or later, which is gRPC's own minimum."""

    def __init__(self, files: KeyPairFiles, settings: ServerSettings) -> None:
        """Read the certificate, the key and the client authorities.

        Raises:
            ConfigurationError: a file cannot be used.
        """
        self._pair: ReloadedCertificate[KeyPair] = ReloadedCertificate(
            "serving certificate",
            functools.partial(read_key_pair, files),
            files.paths,
            ends_at=lambda pair: pair.ends_at,
        )
        self._authorities = _client_authorities(settings)
        self.clients = None
        """Identifies clients by their certificates; None if clients need none."""
        if self._authorities is not None:
            self.clients = ClientCertificateAuthenticator(self._authorities, settings.client_allowed_names)
        self.files: tuple[ReloadedCertificate[Any], ...] = tuple(
            file for file in (self._pair, self._authorities) if file is not None
        )
        """The files, which are reloaded when they change."""
        self._updates: collections.deque[grpc.ServerCertificateConfiguration] = collections.deque(maxlen=1)
        for file in self.files:
            file.add_listener(self._update)

    @classmethod
    def of(cls, settings: ServerSettings) -> ServerTls | None:
        """Return the TLS for the settings; None if the service uses none.

        Raises:
            ConfigurationError: a file cannot be used, or another file that it needs is missing.
        """
        files = KeyPairFiles.from_flags(settings.tls_cert_file, settings.tls_private_key_file, PAIR_FLAGS)
        if settings.client_ca_file is None and settings.client_allowed_names:
            raise ConfigurationError(
                "--client-allowed-names needs --client-ca-file, which says whose names they are"
            )
        if files is not None:
            return cls(files, settings)
        if settings.client_ca_file is not None:
            raise ConfigurationError(f"--client-ca-file needs TLS: give {' and '.join(PAIR_FLAGS)} as well")
        return None

    def credentials(self) -> grpc.ServerCredentials:
        """Return the credentials of a port. Each handshake uses the files' contents at that time."""
        return grpc.dynamic_ssl_server_credentials(
            self._configuration(),
            self._newest,  # type: ignore[arg-type]  # the stubs lack the None that gRPC documents
            require_client_authentication=self._authorities is not None,
        )

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        pair, authorities = self._pair.value, self._authorities
        return grpc.ssl_server_certificate_configuration(
            [(pair.key, pair.chain)], None if authorities is None else authorities.value.pem
        )

    def _update(self, _: object) -> None:
        self._updates.append(self._configuration())

    def _newest(self) -> grpc.ServerCertificateConfiguration | None:
        # gRPC calls this before each handshake, in its own thread; None means that nothing has changed.
        try:
            return self._updates.pop()
        except IndexError:
            return None


def _client_authorities(settings: ServerSettings) -> ReloadedCertificate[CertificateAuthorities] | None:
    file = settings.client_ca_file
    if file is None:
        return None
    return ReloadedCertificate(
        "client authorities",
        functools.partial(read_authorities, file, "--client-ca-file"),
        (file,),
        ends_at=lambda authorities: authorities.ends_at,
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where a service listens, which clients it accepts, and how it stops."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 0
    """Port to listen on; 0 picks a free one."""
    tls_cert_file: Path | None = None
    """Certificate chain in PEM, own certificate first. With it and the key, only TLS is served."""
    tls_private_key_file: Path | None = None
    """The certificate's private key in PEM. Both files are reloaded when they change."""
    client_ca_file: Path | None = None
    """Certificates of authorities, in PEM: only clients with a certificate from one of them can connect. Reloaded
    when it changes."""
    client_allowed_names: tuple[str, ...] = ()
    """The clients that may call: the common name, a DNS name or a URI of the client's certificate must be one of these.
    Empty lets all of them call."""

    checks_key_file: Path | None = None
    """A file with a key that only the front doors and their services have: what a front door proves to have checked of
    a review is not checked again. Without it, only clients with a certificate of ``client_ca_file`` are believed."""

    max_message_bytes: int = 16 * 1024 * 1024
    """The longest message, both ways. 16 MiB: twice the largest valid review of 7 MiB, with some room."""
    max_concurrent_calls: int = 1000
    """The most concurrent calls; more are rejected with RESOURCE_EXHAUSTED. 1,000: a kube-apiserver with default flags
    has 600 requests in flight, and health watches count as calls."""
    max_connection_age_seconds: float = 1800.0
    """The age in seconds, give or take a tenth, at which a connection's client is told to make a new one. This is how
    clients that do not look up names again, unlike the front door, find new replicas. 1800: 30 minutes, rare enough to
    cost nothing."""
    drain_seconds: float = 0.2
    """How many seconds the service still accepts calls after the first stop signal, while its health is NOT_SERVING.
    0.2: clients that watch its health stop calling within 0.033."""
    grace_seconds: float = 30.0
    """How many seconds calls in flight may then take. 30: the longest timeout of a webhook."""
    metrics_host: str = "127.0.0.1"
    """Address that serves metrics."""
    metrics_port: int | None = None
    """Port of ``GET /metrics``; 0 picks a free one, which is logged. None: nothing is counted or served."""
    isolation: Isolation = Isolation.PROCESS
    """How controllers of other packages are isolated from the service."""


class HealthService:
    """The health of a server and of each of its services."""

    def __init__(self, services: Iterable[str], streams: OpenStreams, receiver: MessageReceiver) -> None:
        """Report the health of ``services``, and of the server under the empty name."""
        self._services = tuple(services)
        self._streams = streams
        self._receiver = receiver
        self._servicer = health.aio.HealthServicer()  # type: ignore[attr-defined]  # the stubs lack its aio half

    async def begin(self) -> None:
        """Report SERVING from now on."""
        for name in self._services:
            await self._servicer.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def end(self) -> None:
        """Report NOT_SERVING from now on, also to watching clients."""
        await self._servicer.enter_graceful_shutdown()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register with ``server``."""
        codecs: Any = {
            "request_deserializer": health_pb2.HealthCheckRequest.FromString,
            "response_serializer": health_pb2.HealthCheckResponse.SerializeToString,
        }
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Check": grpc.stream_unary_rpc_method_handler(self._check, **codecs),
            "Watch": grpc.stream_stream_rpc_method_handler(self._watch, **codecs),
        }
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(health.SERVICE_NAME, methods)])

    async def _check(self, _: object, context: Context) -> Any:
        return await self._servicer.Check(await self._receiver.message(context), context)

    async def _watch(self, _: object, context: Context) -> None:
        request = await self._receiver.message(context)
        with self._streams.open():
            await self._servicer.Watch(request, _WatchContext(self._streams, context))


class _WatchContext:
    """The part of a context that health watches use."""

    def __init__(self, streams: OpenStreams, context: Any) -> None:
        self._streams = streams
        self._context = context

    async def write(self, message: object) -> None:
        await self._streams.write(self._context, message)


class ReflectionService(reflection_pb2_grpc.ServerReflectionServicer):  # type: ignore[misc]  # likewise
    """Describes a server's services, so that tools like grpcurl need no .proto files."""

    def __init__(self, services: Iterable[str], streams: OpenStreams, limit: StreamLimit) -> None:
        """Describe ``services``."""
        self._limit = limit
        names = (*services, reflection.SERVICE_NAME)
        self._servicer = reflection.aio.ReflectionServicer(names)  # type: ignore[attr-defined]  # likewise
        self._streams = streams

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register with ``server``."""
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(self, server)

    async def ServerReflectionInfo(  # noqa: N802, D102 - as in the proto
        self, request_iterator: Any, context: Any
    ) -> None:
        async with self._limit.admit(context):
            await self._answer(request_iterator, context)

    async def _answer(self, request_iterator: Any, context: Any) -> None:
        with self._streams.open():
            async for answer in self._servicer.ServerReflectionInfo(request_iterator, context):
                await self._streams.write(context, answer)


MethodHandlers: TypeAlias = Mapping[str, "grpc.RpcMethodHandler[Any, Any]"]


class RpcService(msgspec.Struct, frozen=True):
    """A service of the contract: its full name, and the handler of each method."""

    name: str
    methods: MethodHandlers
    stream: StreamedMethod | None = None
    """The stream that carries many calls of one of ``methods``."""
    held: RecentInputs[Any] | None = None
    """The inputs of its decisions, which its streams report."""


class MethodWrapper(Protocol):
    """Wraps methods, to observe their calls."""

    def wrap(self, service: str, methods: MethodHandlers) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        """Return the wrapped methods of a service."""


class RpcServer:
    """A gRPC server with health and reflection. Create it where the event loop runs."""

    def __init__(
        self, services: Sequence[RpcService], settings: ServerSettings, wrappers: Sequence[MethodWrapper] = ()
    ) -> None:
        """Serve ``services`` once started, wrapped by ``wrappers``, the innermost first.

        Raises:
            ConfigurationError: the TLS files cannot be used.
        """
        self._settings = settings
        self.tls = ServerTls.of(settings)
        """The server's TLS; None if it uses none."""
        self._watching: asyncio.Task[None] | None = None
        self._server = grpc.aio.server(
            # Our own limit rejects calls with a message. gRPC's limit covers what bypasses it: health, floods.
            options=_server_options(settings),
            maximum_concurrent_rpcs=2 * settings.max_concurrent_calls,
        )
        self._receiver = MessageReceiver(settings.max_message_bytes)
        self._limit = ConcurrencyLimit(settings.max_concurrent_calls)
        names = [service.name for service in services]
        self._streams = OpenStreams()
        # Health checks have room of their own, so that they never wait for long messages.
        self._health = HealthService(names, self._streams, MessageReceiver(settings.max_message_bytes))
        limit = StreamLimit(settings.max_message_bytes)
        self._streamed_calls = StreamedCalls(settings.max_message_bytes, limit)
        self._server.add_generic_rpc_handlers(
            [
                grpc.method_handlers_generic_handler(service.name, self._methods(service, wrappers))
                for service in services
            ]
        )
        self._health.add_to(self._server)
        reflected = (*names, health.SERVICE_NAME)
        ReflectionService(reflected, self._streams, limit).add_to(self._server)

    def _methods(
        self, service: RpcService, wrappers: Sequence[MethodWrapper]
    ) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        """Return the methods of a service, and the stream that carries calls of one of them."""
        limited = intercepted(service.methods, self._limit.limit)
        receiving = self._guarded(intercepted(limited, self._receiver.receive))
        methods = {
            name: receiving_handler(method)
            for name, method in _wrapped(service.name, receiving, wrappers).items()
        }
        if (stream := service.stream) is not None:
            carried = _wrapped(service.name, self._guarded(limited), wrappers)
            unary: Any = carried[_method_name(stream.path)].unary_unary
            methods[_method_name(stream.stream_path)] = self._streamed_calls.stream_handler(
                stream, unary, self._client_check(), service.held
            )
        return methods

    def _guarded(self, methods: MethodHandlers) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        """Add the check of the client, which comes before anything is received.

        Health and reflection have none: every connected client can use them.
        """
        return intercepted(methods, self._client_check())

    def _client_check(self) -> Interceptor:
        """The check that a client passes before each call; without client certificates everybody does."""
        if self.tls is None or self.tls.clients is None:
            return _allow_everybody
        return require_known_client(self.tls.clients)

    async def start(self) -> str:
        """Listen, and return the address with the actual port.

        Raises:
            ConfigurationError: the server cannot listen on the address.
        """
        host, port = self._settings.host, self._settings.port
        bracketed = f"[{host}]" if ":" in host else host
        try:
            _check_address(host, port)
            actual_port = self._listen(f"{bracketed}:{port}")
        except (OSError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or "gRPC refuses to"
            raise ConfigurationError(f"cannot listen on {bracketed}:{port}: {reason}") from None
        await self._health.begin()
        await self._server.start()
        if self.tls is not None:
            self._watching = asyncio.ensure_future(keep_certificates_fresh(self.tls.files))
        return f"{bracketed}:{actual_port}"

    def _listen(self, address: str) -> int:
        if self.tls is None:
            return self._server.add_insecure_port(address)
        return self._server.add_secure_port(address, self.tls.credentials())

    async def drain(self) -> None:
        """Stop without losing calls in flight: turn clients away, then finish what they have sent."""
        await self._health.end()
        self._streamed_calls.leave()
        await asyncio.sleep(self._settings.drain_seconds)
        stopping = asyncio.ensure_future(self._server.stop(self._settings.grace_seconds))
        await asyncio.sleep(0)  # no stream begins from here on
        self._streams.end()
        self._streamed_calls.end()
        await stopping
        await self._stop_watching_files()

    async def stop(self) -> None:
        """Stop at once and cancel the calls in flight."""
        await self._server.stop(None)
        await self._stop_watching_files()

    async def _stop_watching_files(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])


def _wrapped(
    name: str, methods: dict[str, grpc.RpcMethodHandler[Any, Any]], wrappers: Sequence[MethodWrapper]
) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
    for wrapper in wrappers:
        methods = wrapper.wrap(name, methods)
    return methods


def _method_name(path: str) -> str:
    return path.rpartition("/")[2]


def _allow_everybody(handler: BytesHandler) -> BytesHandler:
    return handler


def _check_address(host: str, port: int) -> None:
    """Raise an OSError if the address cannot be used. gRPC would not say why, and would log about it."""
    if host == "::":
        return  # without IPv6, gRPC reads this as every IPv4 address
    family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
        probe.listen()


_MAX_CONNECTIONS = 256
"""The most connections. A front door has two or three to each replica, and each takes 50 KiB."""


def _server_options(settings: ServerSettings) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        ("grpc.max_send_message_length", settings.max_message_bytes),
        # What a client may send of a message that nobody has asked for yet: 64 KiB. gRPC would measure the bandwidth,
        # and raise it to 32 MiB.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", 64 * 1024),
        ("grpc.max_allowed_incoming_connections", _MAX_CONNECTIONS),
        # Never fewer than what is refused: a call that waits for its turn in the client cannot go elsewhere.
        ("grpc.max_concurrent_streams", max(100, 2 * settings.max_concurrent_calls)),
        ("grpc.server_handshake_timeout_ms", 10_000),
        ("grpc.max_connection_age_ms", round(settings.max_connection_age_seconds * 1000)),
        ("grpc.max_connection_age_grace_ms", round(settings.grace_seconds * 1000)),
        # Two servers on one port, each with half of the calls, are always a mistake.
        ("grpc.so_reuseport", 0),
        # Front doors ping every 4 seconds to find frozen replicas; gRPC's default minimum of 300 would disconnect them.
        ("grpc.http2.min_ping_interval_without_data_ms", 2_000),
        ("grpc.keepalive_permit_without_calls", 1),
        # In the other direction, a client that vanished is noticed within 40 seconds.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.max_pings_without_data", 0),
    ]
