"""Crowds: how many calls a server answers at a time, and what the others are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc

if TYPE_CHECKING:
    from pratique.rpc.handlers import Context, Handler

_NO_RETRY = (("grpc-retry-pushback-ms", "-1"),)
"""Whoever would try again by a retry policy does not: https://github.com/grpc/proposal/blob/master/A6-client-retries.md.
Retries are what keeps an overloaded service overloaded."""


class Crowd:
    """The calls that one server is answering.

    gRPC's own ``maximum_concurrent_rpcs`` refuses without that request, and counts watches of health.
    """

    def __init__(self, most_calls: int) -> None:
        """Let so many calls in."""
        self._most_calls = most_calls
        self._calls = 0

    def limiting(self, handler: Handler) -> Handler:
        """Refuse with RESOURCE_EXHAUSTED, at once and before the request is parsed, what comes beyond the limit."""

        async def ring(request: bytes, context: Context) -> bytes:
            if self._calls >= self._most_calls:
                await context.abort(
                    grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls are in flight", _NO_RETRY
                )
            self._calls += 1
            try:
                return await handler(request, context)
            finally:
                self._calls -= 1

        return ring
