"""Waiting for what comes in its own time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from pratique_frontdoor.transports.grpc import GrpcTransport


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    """Tell whether something comes to hold before the time is up, asking less and less often."""
    until, pause = time.monotonic() + seconds, 0.01
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(pause)
        pause = min(2 * pause, 0.1)
    return False


async def until(seconds: float, holds: Callable[[], Awaitable[object]]) -> None:
    """Wait until something comes to hold, asking every now and then; TimeoutError where the time is up before."""
    async with asyncio.timeout(seconds):
        while not await holds():  # noqa: ASYNC110 - what holds is not told of by any event
            await asyncio.sleep(0.02)


async def streams_to(transport: GrpcTransport, replicas: int) -> None:
    """Wait until a transport has streams to so many replicas."""

    async def there() -> bool:
        return transport.streams == replicas

    await until(120, there)
