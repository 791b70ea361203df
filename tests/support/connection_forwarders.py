"""What stands for kube-proxy and for the network in tests: connections go to one of the processes behind an address.

The network can be cut: bytes arrive once it is mended, as TCP sees to it, or never, if connections were broken.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self


class Forwarder:
    """Forwards connections; those that are there stay where they are when ports are left out, as with kube-proxy."""

    def __init__(self, address: tuple[str, int], ports: Sequence[int]) -> None:
        self._address = address
        self._ports = list(ports)
        self._turn = itertools.count()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._whole = asyncio.Event()
        self._whole.set()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._address[1]

    def leave_out(self, port: int) -> None:
        """Send no new connections to a port."""
        self._ports = [other for other in self._ports if other != port]

    def take_in(self, port: int) -> None:
        """Send new connections there, too."""
        self._ports = [*self._ports, port]

    def cut(self) -> None:
        """Let nothing through, and tell nobody."""
        self._loop.call_soon_threadsafe(self._whole.clear)

    def mend(self) -> None:
        """Let through what waits, and all that follows."""
        self._loop.call_soon_threadsafe(self._whole.set)

    def break_connections(self) -> None:
        """End all connections at once."""
        self._loop.call_soon_threadsafe(self._break)

    def _break(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    def __enter__(self) -> Self:
        self._thread.start()
        listening = asyncio.start_server(self._forward, *self._address)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ports = self._ports
        with contextlib.closing(writer), contextlib.suppress(OSError, IndexError, asyncio.CancelledError):
            there, back = await asyncio.open_connection("127.0.0.1", ports[next(self._turn) % len(ports)])
            with contextlib.closing(back):
                self._writers |= {writer, back}
                try:
                    await asyncio.gather(self._copy(reader, back), self._copy(there, writer))
                finally:
                    self._writers -= {writer, back}

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(65536):
                await self._whole.wait()
                writer.write(piece)
                await writer.drain()
        writer.close()
