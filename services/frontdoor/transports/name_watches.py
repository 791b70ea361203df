"""Watching a name for new replicas.

gRPC asks for a name's addresses again when a connection ends, which may be half an hour after another replica came.
So they are looked up here from time to time, beside all calls.
"""

from __future__ import annotations

import asyncio
import dataclasses
import ipaddress
import logging
import re
import socket
from collections.abc import Awaitable, Callable
from typing import TypeAlias

_log = logging.getLogger(__name__)

Resolve: TypeAlias = Callable[[str], Awaitable[frozenset[str]]]
"""Gives the addresses of a name; raises OSError where it has none."""

LOOK_SECONDS = 10.0
"""How often to look. A new replica is to be found within 30 s, and a look may come too early for the name server's
cache: CoreDNS keeps the answers for Services for 5 s. The third look still is in time."""

_DNS_TARGET = re.compile(r"dns://[^/]*/(?P<host>\[[^]]+\]|[^:/]+)(?::\d+)?")


async def resolve(name: str) -> frozenset[str]:
    """Ask the system.

    Raises:
        OSError: the name has no addresses, or nobody knows.
    """
    found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return frozenset(str(address[0]) for _, _, _, _, address in found)


def watched_name(target: str) -> str:
    """The name in a gRPC target that may come to have more addresses; empty where it has none such."""
    match = _DNS_TARGET.fullmatch(target)
    if match is None:
        return ""
    host = match["host"]
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host
    return ""


@dataclasses.dataclass(frozen=True, slots=True)
class NameWatch:
    """Looks a name up again and again."""

    name: str
    renew: Callable[[], Awaitable[bool]]
    """Called when the name has an address that it had not the last time; gives whether that one is used now."""
    resolve: Resolve = resolve
    seconds: float = LOOK_SECONDS

    async def run(self) -> None:
        """Look until cancelled."""
        known: frozenset[str] | None = None
        while True:
            found = await self._look()
            if found and (known is None or found <= known or await self._renew(len(found - known))):
                known = found
            await asyncio.sleep(self.seconds)

    async def _look(self) -> frozenset[str]:
        """The addresses; none where nobody knows, which says nothing of those that are connected."""
        try:
            return await self.resolve(self.name)
        except OSError:
            return frozenset()

    async def _renew(self, count: int) -> bool:
        renewed = await self.renew()
        if renewed:
            _log.info("replicas found", extra={"address": self.name, "count": count})
        return renewed
