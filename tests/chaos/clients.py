"""Clients: requests at an even pace, whatever becomes of those before; each with its time, as an API server's."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import aiohttp

from chaos.histories import SILENCE, Answered, Asked, Failed, History
from chaos.workloads import Request, Workload
from pratique.apimachinery.json_values import encode

if TYPE_CHECKING:
    from typing import Self

PATIENCE_SECONDS = 5.0
"""How much longer than a request's time the client waits, to see whether an answer comes late or never."""
_HEADERS = {"Content-Type": "application/json"}


class Client:
    """Sends requests, and records the answers."""

    def __init__(
        self, url: str, tls: ssl.SSLContext, workload: Workload, history: History, *, connections: int = 0
    ) -> None:
        """Send requests to a front door over at most so many connections (0: no limit) within a context."""
        self._url = url
        self._workload = workload
        self._history = history
        self._ending = asyncio.Event()
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=connections, ssl=tls))
        self.asked = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def run(self, per_second: float) -> None:
        """Send requests until stopped, then wait for outstanding answers."""
        clock = asyncio.get_running_loop().time
        due = clock()
        async with asyncio.TaskGroup() as requests:
            while not self._ending.is_set():
                requests.create_task(self.ask(self._workload.request(self.asked)))
                self.asked += 1
                # One that is late is not made up for.
                due = max(due + 1 / per_second, clock())
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._ending.wait(), due - clock())

    def end(self) -> None:
        """Stop sending requests."""
        self._ending.set()

    async def ask(self, request: Request) -> None:
        """Send one request."""
        now, add = self._history.now, self._history.add
        add(Asked(now(), request.number, request.path, request.uid, request.timeout))
        target = f"{self._url}{request.path}?timeout={request.timeout:g}s"
        try:
            async with asyncio.timeout(request.timeout + PATIENCE_SECONDS):
                async with self._session.post(target, data=encode(request.body), headers=_HEADERS) as answer:
                    body = await answer.text()
        except TimeoutError:
            add(Failed(now(), request.number, SILENCE))
        except (aiohttp.ClientError, OSError) as error:
            add(Failed(now(), request.number, type(error).__name__))
        else:
            add(Answered(now(), request.number, answer.status, body))


@contextlib.asynccontextmanager
async def asking(client: Client, per_second: float) -> AsyncIterator[Client]:
    """Let a client send requests within a context, and then collect all its answers."""
    running = asyncio.ensure_future(client.run(per_second))
    try:
        yield client
    finally:
        client.end()
        await running
