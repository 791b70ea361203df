"""Handshakes: a connection from when it is accepted until TLS is spoken on it.

asyncio's servers tell of a connection when its handshake is over. Until then nobody would count it, and a stranger who
never ends one costs as much as a caller.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

    from frontdoor.protocols import Protocol


class Handshake(asyncio.Protocol):
    """What is spoken on a connection before HTTP over TLS is."""

    def __init__(
        self, protocol: Protocol, context: ssl.SSLContext, seconds: float, tasks: set[asyncio.Task[None]]
    ) -> None:
        """Shake hands within that many seconds, and go on with ``protocol``; ``tasks`` keeps the one that does it."""
        self._protocol = protocol
        self._context = context
        self._seconds = seconds
        self._tasks = tasks

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # sockets have these
        """Count it, and shake hands.

        The socket goes on under another transport: uvloop's own ``start_tls`` loses what came before it was called.
        """
        accepted = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        peer = transport.get_extra_info("peername")
        transport.abort()
        task = asyncio.get_running_loop().create_task(self._shake_hands(accepted))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._protocol.accepted(accepted, peer)

    async def _shake_hands(self, accepted: socket.socket) -> None:
        # Whoever does not end a handshake, or ends it badly, has had its alert.
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._protocol,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=self._seconds,
                ssl_shutdown_timeout=self._seconds,
            )
            return
        self._protocol.forget()
        accepted.close()
