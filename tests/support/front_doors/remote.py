"""Front doors with services behind them, all in one event loop, and a client of theirs."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from pratique_frontdoor.engines.remote import RemoteEngine
from pratique_frontdoor.http.app import build_app
from pratique_frontdoor.http.servers import FrontDoorServer
from pratique_frontdoor.settings import FrontDoorSettings
from support.front_doors.reviews import review_document


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
