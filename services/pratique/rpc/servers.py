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
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
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
    Interceptor,
    intercepted,
    require_known_client,
)
from pratique.rpc.streams import OpenStreams, StreamedCalls, StreamedMethod

PAIR_FLAGS = ("--tls-cert-file", "--tls-private-key-file")


class ServerTls:
    """The TLS of one service: at least version 1.2, which is gRPC's own minimum."""

    def __init__(self, files: KeyPairFiles, settings: ServerSettings) -> None:
        """Read everything.

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
        """Knows callers by their certificates; None where nobody is asked for one."""
        if self._authorities is not None:
            self.clients = ClientCertificateAuthenticator(self._authorities, settings.client_allowed_names)
        self.kept: tuple[ReloadedCertificate[Any], ...] = tuple(
            one for one in (self._pair, self._authorities) if one is not None
        )
        """What is read again, and how it is with each."""
        self._news: collections.deque[grpc.ServerCertificateConfiguration] = collections.deque(maxlen=1)
        for one in self.kept:
            one.add_listener(self._announce)

    @classmethod
    def of(cls, settings: ServerSettings) -> ServerTls | None:
        """The TLS that the settings ask for; None where a service serves without.

        Raises:
            ConfigurationError: a file cannot be used, or is given without another that it needs.
        """
        files = KeyPairFiles.given(settings.tls_cert_file, settings.tls_private_key_file, PAIR_FLAGS)
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
        """Make what a port is opened with. Each handshake is made with what is in the files then."""
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

    def _announce(self, _: object) -> None:
        self._news.append(self._configuration())

    def _newest(self) -> grpc.ServerCertificateConfiguration | None:
        # gRPC asks before each handshake, in a thread of its own; None means that nothing has changed.
        try:
            return self._news.pop()
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
    """Where a service listens, whom it lets in, and how it ends."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 0
    """Port to listen on; 0 picks a free one."""
    tls_cert_file: Path | None = None
    """Certificate chain in PEM, own certificate first. With it and the key, only TLS is served."""
    tls_private_key_file: Path | None = None
    """The certificate's private key in PEM. Both files are read again when they change."""
    client_ca_file: Path | None = None
    """Certificates of authorities, in PEM: only clients with a certificate of one of them get a connection. Read
    again when it changes."""
    client_allowed_names: tuple[str, ...] = ()
    """Who of those may call: one of the names in the certificate, its common name, a DNS name or a URI, must be one
    of these. Empty lets all of them call."""

    max_message_bytes: int = 16 * 1024 * 1024
    """The longest message, both ways. 16 MiB: twice a legal review of 7 MiB, and room for more around it."""
    max_concurrent_calls: int = 1000
    """Calls at a time; more are refused with RESOURCE_EXHAUSTED. 1,000: a kube-apiserver with default flags
    has 600 requests in flight, and watches of health count as calls."""
    max_connection_age_seconds: float = 1800.0
    """How long a connection lives before its client is told to make a new one, give or take a tenth. That is
    how clients that look up no names, as the front door does, find replicas that came later. 1800: 30 minutes, rare
    enough to cost nothing."""
    drain_seconds: float = 0.2
    """How long calls are still taken after the first signal to stop, while health says NOT_SERVING. 0.2:
    clients that watch health turn away within 0.033."""
    grace_seconds: float = 30.0
    """How long calls in flight may take to finish after that. 30: the longest timeout of a webhook."""
    metrics_host: str = "127.0.0.1"
    """Address on which metrics are shown."""
    metrics_port: int | None = None
    """Port on which ``GET /metrics`` shows metrics; 0 picks a free one, which the log tells. None: nothing is counted
    nor shown."""
    isolation: Isolation = Isolation.PROCESS
    """What stands between the service and the controllers of other packages."""


class HealthService(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # generated without types
    """The health of a server and of each service on it."""

    def __init__(self, services: Iterable[str], streams: OpenStreams) -> None:
        """Know ``services`` and, as the empty name, the server; all are healthy."""
        self._services = tuple(services)
        self._streams = streams
        self._servicer = health.aio.HealthServicer()  # type: ignore[attr-defined]  # the stubs lack its aio half

    async def begin(self) -> None:
        """Say SERVING from now on."""
        for name in self._services:
            await self._servicer.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def end(self) -> None:
        """Say NOT_SERVING from now on, also to those who watch."""
        await self._servicer.enter_graceful_shutdown()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Answer for health on ``server``."""
        health_pb2_grpc.add_HealthServicer_to_server(self, server)

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802, D102 - as in the proto
        return await self._servicer.Check(request, context)

    async def Watch(self, request: Any, context: Any) -> None:  # noqa: N802, D102 - as in the proto
        with self._streams.open():
            await self._servicer.Watch(request, _WatchContext(self._streams, context))


class _WatchContext:
    """The part of a context that watches use."""

    def __init__(self, streams: OpenStreams, context: Any) -> None:
        self._streams = streams
        self._context = context

    async def write(self, message: object) -> None:
        await self._streams.write(self._context, message)


class ReflectionService(reflection_pb2_grpc.ServerReflectionServicer):  # type: ignore[misc]  # likewise
    """Tells what a server offers, so that tools like grpcurl need no proto files."""

    def __init__(self, services: Iterable[str], streams: OpenStreams) -> None:
        """Tell of ``services``."""
        names = (*services, reflection.SERVICE_NAME)
        self._servicer = reflection.aio.ReflectionServicer(names)  # type: ignore[attr-defined]  # likewise
        self._streams = streams

    def add_to(self, server: grpc.aio.Server) -> None:
        """Answer for reflection on ``server``."""
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(self, server)

    async def ServerReflectionInfo(  # noqa: N802, D102 - as in the proto
        self, request_iterator: Any, context: Any
    ) -> None:
        with self._streams.open():
            async for answer in self._servicer.ServerReflectionInfo(request_iterator, context):
                await self._streams.write(context, answer)


MethodHandlers: TypeAlias = Mapping[str, "grpc.RpcMethodHandler[Any, Any]"]


@dataclasses.dataclass(frozen=True, slots=True)
class RpcService:
    """A service of the contract, by its full name, and the handler of each of its methods."""

    name: str
    methods: MethodHandlers
    stream: StreamedMethod | None = None
    """What carries many calls of one of ``methods`` at a time."""
    held: RecentInputs[Any] | None = None
    """What its answers are decided by, which its streams tell."""


class MethodWrapper(Protocol):
    """Whoever wants to know of every call."""

    def round(self, service: str, methods: MethodHandlers) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        """Stand round the methods of a service."""


class RpcServer:
    """A gRPC server with its health and reflection. Make it where the event loop runs."""

    def __init__(
        self, services: Sequence[RpcService], settings: ServerSettings, watchers: Sequence[MethodWrapper] = ()
    ) -> None:
        """Offer ``services`` once started, with ``watchers`` round them, the innermost first.

        Raises:
            ConfigurationError: the TLS files cannot be used.
        """
        self._settings = settings
        self.tls = ServerTls.of(settings)
        """How it is with certificates; None where it serves without TLS."""
        self._watching: asyncio.Task[None] | None = None
        self._server = grpc.aio.server(
            # What is counted here refuses in words of its own. gRPC's own count is for what passes by: health, floods.
            options=_server_options(settings),
            maximum_concurrent_rpcs=2 * settings.max_concurrent_calls,
        )
        self._crowd = ConcurrencyLimit(settings.max_concurrent_calls)
        names = [service.name for service in services]
        self._streams = OpenStreams()
        self._health = HealthService(names, self._streams)
        self._carried = StreamedCalls(settings.max_message_bytes)
        self._server.add_generic_rpc_handlers(
            [
                grpc.method_handlers_generic_handler(
                    service.name,
                    self._with_stream(
                        service, _wrapped(service.name, self._guarded(service.methods), watchers)
                    ),
                )
                for service in services
            ]
        )
        self._health.add_to(self._server)
        ReflectionService((*names, "grpc.health.v1.Health"), self._streams).add_to(self._server)

    def _guarded(self, methods: MethodHandlers) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        """Let nobody call them who is not known, nor more at a time than can be answered.

        Health and reflection are for everybody who gets a connection.
        """
        return intercepted(intercepted(methods, self._crowd.limiting), self._door())

    def _door(self) -> Interceptor:
        """Who gets in: everybody, or those whose certificates are known."""
        if self.tls is None or self.tls.clients is None:
            return _allow_everybody
        return require_known_client(self.tls.clients)

    def _with_stream(
        self, service: RpcService, methods: dict[str, grpc.RpcMethodHandler[Any, Any]]
    ) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        """Add the stream of a service, each of whose calls is one of the unary method that it carries."""
        stream = service.stream
        if stream is None:
            return methods
        unary: Any = methods[_method_name(stream.path)].unary_unary
        return methods | {
            _method_name(stream.stream_path): self._carried.stream_handler(
                stream, unary, self._door(), service.held
            )
        }

    async def start(self) -> str:
        """Listen, and return the address with the port that was picked.

        Raises:
            ConfigurationError: the address cannot be listened on.
        """
        host, port = self._settings.host, self._settings.port
        shown = f"[{host}]" if ":" in host else host
        try:
            _check_address(host, port)
            taken = self._listen(f"{shown}:{port}")
        except (OSError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or "gRPC refuses to"
            raise ConfigurationError(f"cannot listen on {shown}:{port}: {reason}") from None
        await self._health.begin()
        await self._server.start()
        if self.tls is not None:
            self._watching = asyncio.ensure_future(keep_certificates_fresh(self.tls.kept))
        return f"{shown}:{taken}"

    def _listen(self, address: str) -> int:
        if self.tls is None:
            return self._server.add_insecure_port(address)
        return self._server.add_secure_port(address, self.tls.credentials())

    async def drain(self) -> None:
        """Stop so that nothing in flight is lost: turn clients away, then finish what they have sent."""
        await self._health.end()
        self._carried.leave()
        await asyncio.sleep(self._settings.drain_seconds)
        stopping = asyncio.ensure_future(self._server.stop(self._settings.grace_seconds))
        await asyncio.sleep(0)  # no stream begins from here on
        self._streams.end()
        self._carried.end()
        await stopping
        await self._watch_no_more()

    async def stop(self) -> None:
        """Stop at once; what is in flight is broken off."""
        await self._server.stop(None)
        await self._watch_no_more()

    async def _watch_no_more(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])


def _wrapped(
    name: str, methods: dict[str, grpc.RpcMethodHandler[Any, Any]], watchers: Sequence[MethodWrapper]
) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
    for watcher in watchers:
        methods = watcher.round(name, methods)
    return methods


def _method_name(path: str) -> str:
    return path.rpartition("/")[2]


def _allow_everybody(handler: BytesHandler) -> BytesHandler:
    return handler


def _check_address(host: str, port: int) -> None:
    """Raise an OSError where an address cannot be listened on. gRPC would not say why, and log about it."""
    if host == "::":
        return  # where there is no IPv6, gRPC takes this for every IPv4 address
    family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
        probe.listen()


def _server_options(settings: ServerSettings) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        ("grpc.max_send_message_length", settings.max_message_bytes),
        ("grpc.max_connection_age_ms", round(settings.max_connection_age_seconds * 1000)),
        ("grpc.max_connection_age_grace_ms", round(settings.grace_seconds * 1000)),
        # Two servers on one port, each with half of the calls, is never what was wanted.
        ("grpc.so_reuseport", 0),
        # Front doors ping every 4 seconds to find frozen replicas; gRPC's default of 300 would send them away.
        ("grpc.http2.min_ping_interval_without_data_ms", 2_000),
        ("grpc.keepalive_permit_without_calls", 1),
        # The same the other way round: a client that is gone without a word is noticed within 40 seconds.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.max_pings_without_data", 0),
    ]
