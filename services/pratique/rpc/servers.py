"""gRPC servers: what all services of the suite have alike."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import grpc

from pratique.errors import ConfigurationError
from pratique.rpc.credentials import server_credentials
from pratique.rpc.standard_services import Health, Reflection
from pratique.rpc.streams import Streams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pratique.rpc.settings import ServerSettings

Methods: TypeAlias = Mapping[str, "grpc.RpcMethodHandler[Any, Any]"]


@dataclasses.dataclass(frozen=True, slots=True)
class Service:
    """A service of the contract, by its full name, and the handler of each of its methods."""

    name: str
    methods: Methods


class RpcServer:
    """A gRPC server with its health and reflection. Make it where the event loop runs."""

    def __init__(self, services: Sequence[Service], settings: ServerSettings) -> None:
        """Offer ``services`` once started.

        Raises:
            ConfigurationError: the TLS files cannot be used.
        """
        self._settings = settings
        self._credentials = server_credentials(settings)
        self._server = grpc.aio.server(
            options=_options(settings), maximum_concurrent_rpcs=settings.max_concurrent_calls
        )
        names = [service.name for service in services]
        self._streams = Streams()
        self._health = Health(names, self._streams)
        self._server.add_generic_rpc_handlers(
            [
                grpc.method_handlers_generic_handler(service.name, dict(service.methods))
                for service in services
            ]
        )
        self._health.add_to(self._server)
        Reflection((*names, "grpc.health.v1.Health"), self._streams).add_to(self._server)

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
        return f"{shown}:{taken}"

    def _listen(self, address: str) -> int:
        if self._credentials is None:
            return self._server.add_insecure_port(address)
        return self._server.add_secure_port(address, self._credentials)

    async def drain(self) -> None:
        """Stop so that nothing in flight is lost: turn clients away, then finish what they have sent."""
        await self._health.end()
        await asyncio.sleep(self._settings.drain_seconds)
        stopping = asyncio.ensure_future(self._server.stop(self._settings.grace_seconds))
        await asyncio.sleep(0)  # no stream begins from here on
        self._streams.end()
        await stopping

    async def stop(self) -> None:
        """Stop at once; what is in flight is broken off."""
        await self._server.stop(None)


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
        # Clients ping every 30 seconds to find dead connections; gRPC's default of 300 would send them away.
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
        # The same the other way round: a client that is gone without a word is noticed within 40 seconds.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
    ]
