"""Response writers: the connection as one response has it, whose head does not leave alone.

uvicorn writes head and body one after the other, and each takes a system call, a record of TLS, and a waking of the
client: a tenth of what an answer costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

_INFORMATIONAL = b"HTTP/1.1 1"
"""How a head begins that another follows: ``100 Continue``."""


class ResponseWriter:
    """Writes one response that has a body to a connection: its head together with what comes next."""

    __slots__ = ("_head", "_is_begun", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        """Write to ``transport``; nothing has been."""
        self._transport = transport
        self._head: bytes | None = None
        self._is_begun = False

    def write(self, data: bytes) -> None:
        """Write, or keep what is the head; a connection that is being closed gets nothing more."""
        if self._transport.is_closing():
            return
        if self._head is not None:
            head, self._head = self._head, None
            self._transport.writelines((head, data))
        elif self._is_begun or data.startswith(_INFORMATIONAL):
            self._transport.write(data)
        else:
            self._head, self._is_begun = data, True

    def close(self) -> None:
        """Close the connection when all is written, be it a head that nothing follows."""
        if self._head is not None:
            self._transport.write(self._head)
            self._head = None
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether the connection is closed, or about to be."""
        return self._transport.is_closing()
