"""Front doors with services behind them, all in one event loop, and a client of theirs."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any

import aiohttp

from doors.reviews import review_document
from frontdoor.engines.remote import RemoteEngine
from frontdoor.http.app import build_app
from frontdoor.http.servers import FrontDoorServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from frontdoor.settings import FrontDoorSettings


@dataclasses.dataclass(frozen=True)
class RemoteDoor:
    """A front door that listens, and asks its services."""

    url: str
    engine: RemoteEngine
    server: FrontDoorServer
    session: aiohttp.ClientSession

    async def post(self, path: str, **request: Any) -> tuple[int, Any]:
        """Post a review; the code and the JSON of the answer."""
        async with self.session.post(f"{self.url}{path}", json=review_document(**request)) as answer:
            return answer.status, await answer.json(content_type=None)

    async def allows(self, path: str, **request: Any) -> bool:
        """Post a review, and tell whether it is let through."""
        code, body = await self.post(path, **request)
        return code == 200 and body["response"]["allowed"] is not False


@contextlib.asynccontextmanager
async def remote_door(settings: FrontDoorSettings) -> AsyncIterator[RemoteDoor]:
    """Run a front door until the block ends."""
    settings = dataclasses.replace(settings, port=0, drain_seconds=0)
    engine = RemoteEngine(settings)
    listening: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    server = FrontDoorServer(build_app(engine, settings), settings, listening.set_result)
    serving = asyncio.ensure_future(server.serve())
    try:
        async with aiohttp.ClientSession() as session:
            yield RemoteDoor(await listening, engine, server, session)
    finally:
        server.drain()
        await serving
        await engine.close()
