"""A name server whose answers a test changes: DNS over UDP, A records alone."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
import struct
from collections.abc import AsyncIterator
from typing import cast

NAME = "validators.test"
_ADDRESS = 1  # the type of an A record


@dataclasses.dataclass
class NameServer(asyncio.DatagramProtocol):
    """Answers every question for addresses with the ones that the test sets."""

    addresses: list[str]
    port: int = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        end = 12
        while data[end]:
            end += data[end] + 1
        kind = struct.unpack("!H", data[end + 1 : end + 3])[0]
        found = self.addresses if kind == _ADDRESS else []
        head = data[:2] + struct.pack("!HHHHH", 0x8180, 1, len(found), 0, 0)
        answers = b"".join(
            b"\xc0\x0c" + struct.pack("!HHIH", _ADDRESS, 1, 0, 4) + socket.inet_aton(one) for one in found
        )
        self._transport.sendto(head + data[12 : end + 5] + answers, addr)

    def target(self, port: int) -> str:
        """What gRPC calls that port of the name's addresses."""
        return f"dns://127.0.0.1:{self.port}/{NAME}:{port}"

    async def resolve(self, name: str) -> frozenset[str]:
        """Answer without a wire."""
        assert name == NAME
        if not self.addresses:
            raise OSError
        return frozenset(self.addresses)


@contextlib.asynccontextmanager
async def name_server(*addresses: str) -> AsyncIterator[NameServer]:
    """Serve names, each of which has these addresses."""
    server = NameServer(list(addresses))
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: server, local_addr=("127.0.0.1", 0))
    server.port = transport.get_extra_info("sockname")[1]
    try:
        yield server
    finally:
        transport.close()
