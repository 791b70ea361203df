"""Streams that would go on for ever, such as watches of health, and their end when a service stops."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class Streams:
    """The open streams of a server. Until they end a server cannot stop but by breaking them off."""

    def __init__(self) -> None:
        """Start without any."""
        self._tasks: set[asyncio.Task[object]] = set()
        self._ended = False

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Run a stream's handler. It is left, as if at its own end, once :meth:`end` is called."""
        task = _current_task()
        self._tasks.add(task)
        if self._ended:
            task.cancel()
        try:
            yield
        except asyncio.CancelledError:
            if not self._ended:
                raise  # the client went away
        finally:
            self._tasks.discard(task)

    async def write(self, context: Any, message: object) -> None:
        """Send a message on the stream whose handler this task runs, whole even if :meth:`end` is called meanwhile.

        A first message that is cancelled on its way leaves gRPC in the belief that no metadata were sent. It sends them
        once more with the status, which fails, so that client and server both wait for the end of the call.
        """
        task = _current_task()
        self._tasks.discard(task)
        await context.write(message)
        if self._ended:
            raise asyncio.CancelledError
        self._tasks.add(task)

    def end(self) -> None:
        """End all streams, and those that are still to come."""
        self._ended = True
        for task in self._tasks:
            task.cancel()


def _current_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a stream is handled in a task")
    return task
