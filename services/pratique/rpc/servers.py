"""gRPC servers: what all services of the suite have alike."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import grpc

from pratique.errors import ConfigurationError
from pratique.rpc.callers import guarded, knowing_callers
from pratique.rpc.credentials import ServerTls
from pratique.rpc.crowds import Crowd
from pratique.rpc.standard_services import Health, Reflection
from pratique.rpc.streamed_calls import StreamedCalls
from pratique.rpc.streams import Streams
from pratique.tls.kept import keep_fresh

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pratique.held_inputs import HeldInputs
    from pratique.rpc.handlers import Handler, Ring
    from pratique.rpc.settings import ServerSettings
    from pratique.rpc.stream_methods import CarriedMethod

Methods: TypeAlias = Mapping[str, "grpc.RpcMethodHandler[Any, Any]"]


@dataclasses.dataclass(frozen=True, slots=True)
class Service:
    """A service of the contract, by its full name, and the handler of each of its methods."""

    name: str
    methods: Methods
    stream: CarriedMethod | None = None
    """What carries many calls of one of ``methods`` at a time."""
    held: HeldInputs[Any] | None = None
    """What its answers are decided by, which its streams tell."""


class Watcher(Protocol):
    """Whoever wants to know of every call."""

    def round(self, service: str, methods: Methods) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        """Stand round the methods of a service."""


class RpcServer:
    """A gRPC server with its health and reflection. Make it where the event loop runs."""

    def __init__(
        self, services: Sequence[Service], settings: ServerSettings, watchers: Sequence[Watcher] = ()
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
            options=_options(settings),
            maximum_concurrent_rpcs=2 * settings.max_concurrent_calls,
        )
        self._crowd = Crowd(settings.max_concurrent_calls)
        names = [service.name for service in services]
        self._streams = Streams()
        self._health = Health(names, self._streams)
        self._carried = StreamedCalls(settings.max_message_bytes)
        self._server.add_generic_rpc_handlers(
            [
                grpc.method_handlers_generic_handler(
                    service.name,
                    self._with_stream(
                        service, _watched(service.name, self._guarded(service.methods), watchers)
                    ),
                )
                for service in services
            ]
        )
        self._health.add_to(self._server)
        Reflection((*names, "grpc.health.v1.Health"), self._streams).add_to(self._server)

    def _guarded(self, methods: Methods) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        """Let nobody call them who is not known, nor more at a time than can be answered.

        Health and reflection are for everybody who gets a connection.
        """
        return guarded(guarded(methods, self._crowd.limiting), self._door())

    def _door(self) -> Ring:
        """Who gets in: everybody, or those whose certificates are known."""
        if self.tls is None or self.tls.clients is None:
            return _open_door
        return knowing_callers(self.tls.clients)

    def _with_stream(
        self, service: Service, methods: dict[str, grpc.RpcMethodHandler[Any, Any]]
    ) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        """Add the stream of a service, each of whose calls is one of the unary method that it carries."""
        stream = service.stream
        if stream is None:
            return methods
        unary: Any = methods[_name(stream.path)].unary_unary
        return methods | {
            _name(stream.stream_path): self._carried.carrying(stream, unary, self._door(), service.held)
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
            self._watching = asyncio.ensure_future(keep_fresh(self.tls.kept))
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


def _watched(
    name: str, methods: dict[str, grpc.RpcMethodHandler[Any, Any]], watchers: Sequence[Watcher]
) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
    for watcher in watchers:
        methods = watcher.round(name, methods)
    return methods


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _open_door(handler: Handler) -> Handler:
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


def _options(settings: ServerSettings) -> list[tuple[str, int]]:
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
