"""Links: TCP proxies between two processes, which can go deaf, slow down, and cut data."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Iterator

_CHUNK_BYTES = 1 << 16


@dataclasses.dataclass(eq=False)
class _Connection:
    """One connection and its continuation, and how much of each direction still passes; None: all of it."""

    near: asyncio.StreamWriter
    far: asyncio.StreamWriter
    left: dict[bool, int | None]

    def close(self) -> None:
        self.near.close()
        self.far.close()


class Link:
    """A way to one address. Bytes are passed on as they come, in order, whatever they mean."""

    def __init__(self, target: int) -> None:
        """Lead to a port of this machine; use :func:`linked`."""
        self.port = 0
        self.target = target
        self._open = asyncio.Event()
        self._open.set()
        self._delay = 0.0
        self._cut: tuple[bool, int] | None = None
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, host: str, port: int) -> asyncio.Server:
        """Begin to listen; port 0 is a free one."""
        server = await asyncio.start_server(self._take, host, port)
        self.port = server.sockets[0].getsockname()[1]
        return server

    @contextlib.contextmanager
    def deaf(self) -> Iterator[None]:
        """Hold all data, as when packets are lost; it is delivered afterwards."""
        self._open.clear()
        try:
            yield
        finally:
            self._open.set()

    @contextlib.contextmanager
    def slow(self, seconds: float) -> Iterator[None]:
        """Let everything pass so much later."""
        self._delay = seconds
        try:
            yield
        finally:
            self._delay = 0.0

    @contextlib.contextmanager
    def cutting(self, after: int, *, answers: bool) -> Iterator[None]:
        """End each connection once so many more bytes have passed, of the answers or of the questions."""
        self._cut = (answers, after)
        for connection in self._connections:
            connection.left[answers] = after
        try:
            yield
        finally:
            self._cut = None
            for connection in self._connections:
                connection.left[answers] = None

    async def close(self) -> None:
        """End all connections."""
        self._open.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._pass(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        try:
            far_reader, far = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        connection = _Connection(writer, far, {True: None, False: None})
        if self._cut is not None:
            connection.left[self._cut[0]] = self._cut[1]
        self._connections.add(connection)
        try:
            ways = [
                self._forward(reader, far, connection, answers=False),
                self._forward(far_reader, writer, connection, answers=True),
            ]
            tasks = [asyncio.ensure_future(way) for way in ways]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            self._connections.discard(connection)
            connection.close()

    async def _forward(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        connection: _Connection,
        *,
        answers: bool,
    ) -> None:
        """Pass one direction on until it ends; each piece in its time, however slowly the ones before went."""
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(64)

        async def read() -> None:
            with contextlib.suppress(OSError):
                while piece := await source.read(_CHUNK_BYTES):
                    await pieces.put((loop.time() + self._delay, piece))
            await pieces.put((0.0, b""))

        reading = asyncio.ensure_future(read())
        try:
            with contextlib.suppress(OSError):
                while True:
                    due, piece = await pieces.get()
                    await asyncio.sleep(due - loop.time())
                    await self._open.wait()
                    if not piece or not await _write(sink, piece, connection, answers=answers):
                        return
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def _write(sink: asyncio.StreamWriter, piece: bytes, connection: _Connection, *, answers: bool) -> bool:
    """Pass a piece on; False where no more may follow."""
    left = connection.left[answers]
    if left is not None:
        connection.left[answers] = max(0, left - len(piece))
        piece = piece[:left]
    sink.write(piece)
    await sink.drain()
    return left is None or len(piece) < left


@contextlib.asynccontextmanager
async def linked(target: int, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[Link]:
    """A link to a port of this machine, for as long as this lasts."""
    link = Link(target)
    server = await link.serve(host, port)
    try:
        yield link
    finally:
        server.close()
        await link.close()
        await server.wait_closed()
