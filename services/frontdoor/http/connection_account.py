"""Connections: by address, what those take up whose callers were not let in, and which of them go when it is too much.

Where callers need no credentials nobody is let in, and everything here is for all of them.
"""

from __future__ import annotations

import collections
import functools
import ipaddress
import logging
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from frontdoor.settings import FrontDoorSettings

TLS_BYTES = 64 * 1024
"""What a connection over TLS takes before anything came: 61 KiB were seen, most of them OpenSSL's and uvloop's."""
PLAIN_BYTES = 8 * 1024
"""The same without TLS: 6 KiB were seen."""
UNAUTHENTICATED_WINDOW_BYTES = 16 * 1024
"""What the kernel takes of a stranger before it is read: as much as a head may have, because Linux doubles it."""
CALLER_WINDOW_BYTES = 1024 * 1024
"""What it takes of a caller, as far as the system lets it: a body of 7 MiB comes in some round trips."""
_LOG_SECONDS = 10.0
"""A line of log in that time for each reason, however many connections are closed."""

_log = logging.getLogger(__name__)


class CountedConnection(Protocol):
    """One connection, as seen from here."""

    @property
    def is_busy(self) -> bool:
        """Whether a request is being read or answered on it."""

    def abandon(self) -> None:
        """Close it at once, and let go of all that it holds."""


class UnauthenticatedConnections:
    """Those that are open and were not let in.

    Too much is closed, not kept waiting: where strangers could fill the places, whoever may call would find none. So it
    is a connection of the address that has most, and the oldest of them that does nothing: an honest one is let in
    within a round trip.
    """

    def __init__(self, settings: FrontDoorSettings) -> None:
        """Start with none."""
        self._max_connections = settings.max_address_connections
        self._max_bytes = settings.max_unauthenticated_bytes
        self._sizes: dict[str, dict[CountedConnection, int]] = {}
        self._totals: dict[str, int] = {}
        self.held_bytes = 0
        """What all of them take up together."""
        self.closed: collections.Counter[tuple[str, ...]] = collections.Counter(
            {("address",): 0, ("memory",): 0, ("stalled",): 0}
        )
        """How many were closed, by the reason: too many from an address, too much memory, answers that nobody reads."""
        self._logged: dict[str, float] = {}

    def __len__(self) -> int:
        """How many there are."""
        return sum(map(len, self._sizes.values()))

    def opened(self, connection: CountedConnection, address: str, size: int) -> None:
        """Take one in, and close others, or that one, where it is too much."""
        of_address = self._sizes.setdefault(address, {})
        of_address[connection] = 0
        self.resize(connection, address, size)
        if self._max_connections and len(of_address) > self._max_connections:
            self._close(_oldest_idle(of_address, connection), address, "address")

    def resize(self, connection: CountedConnection, address: str, size: int) -> None:
        """Note what a connection takes up now, in bytes."""
        of_address = self._sizes.get(address, {})
        if connection not in of_address:
            return  # let in, or closed
        difference = size - of_address[connection]
        of_address[connection] = size
        self._totals[address] = self._totals.get(address, 0) + difference
        self.held_bytes += difference
        while difference > 0 and self._max_bytes and self.held_bytes > self._max_bytes:
            heaviest = max(self._totals, key=self._totals.__getitem__)
            victim = _oldest_idle(self._sizes[heaviest], None)
            if victim is None:
                heaviest, victim = address, connection
            self._close(victim, heaviest, "memory")
            if victim is connection:
                return

    def left(self, connection: CountedConnection, address: str) -> None:
        """Forget a connection that is closed, or was let in. Again has no effect."""
        of_address = self._sizes.get(address, {})
        size = of_address.pop(connection, None)
        if size is None:
            return
        self.held_bytes -= size
        self._totals[address] -= size
        if not of_address:
            del self._sizes[address], self._totals[address]

    def count(self, reason: str, address: str) -> None:
        """Count one that is closed, and log it where that was not done for a while."""
        self.closed[reason,] += 1
        now = time.monotonic()
        if now - self._logged.get(reason, -_LOG_SECONDS) >= _LOG_SECONDS:
            self._logged[reason] = now
            extra = {"reason": reason, "address": address, "closed": self.closed[reason,]}
            _log.warning("connections are closed", extra=extra)

    def _close(self, connection: CountedConnection | None, address: str, reason: str) -> None:
        if connection is not None:
            self.left(connection, address)
            self.count(reason, address)
            connection.abandon()


def _oldest_idle(connections: dict[CountedConnection, int], otherwise: CountedConnection | None) -> CountedConnection | None:
    return next((one for one in connections if one is not otherwise and not one.is_busy), otherwise)


@functools.lru_cache(maxsize=4096)
def network_address(host: str | None) -> str:
    """Give what counts as one address: of IPv6 the first 64 bits, which is what one machine gets of a network.

    Sockets without an address, such as Unix ones, are all ``local``.
    """
    try:
        address = ipaddress.ip_address((host or "").partition("%")[0])
    except ValueError:
        return "local"
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, 64), strict=False))
