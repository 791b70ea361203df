"""Contexts of streamed calls: what a handler is told of a call that came on a stream with others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NoReturn

import grpc

from pratique.rpc.repetitions import ATTEMPTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pratique.admission.v1.stream_pb2 import StreamedCall


class StreamedContext:
    """The part of ``grpc.aio.ServicerContext`` that rings and methods here use, for one call of a stream."""

    __slots__ = ("_authentication", "_call", "_code", "_details", "_ends_at")

    def __init__(self, call: StreamedCall, authentication: Mapping[str, Iterable[bytes]]) -> None:
        """Begin the call's time now. ``authentication`` is the connection's."""
        self._call = call
        self._authentication = authentication
        self._code: grpc.StatusCode | None = None
        self._details = ""
        millis = call.timeout_millis
        self._ends_at = time.monotonic() + millis / 1000 if millis > 0 else None

    def time_remaining(self) -> float | None:
        """Seconds that are left; None where the call has no deadline."""
        if self._ends_at is None:
            return None
        return max(0.0, self._ends_at - time.monotonic())

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """What a call of its own would have brought along, as gRPC gives it."""
        call = self._call
        sent = tuple(call.metadata.items()) if call.metadata else ()
        if call.previous_attempts > 0:
            return (*sent, (ATTEMPTS, str(call.previous_attempts)))
        return sent

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """What the client has shown when it connected."""
        return self._authentication

    def code(self) -> grpc.StatusCode | None:
        """The code that the call was ended with; None where it was not."""
        return self._code

    def details(self) -> str:
        """The text that the call was ended with."""
        return self._details

    async def abort(self, code: grpc.StatusCode, details: str = "", _trailing_metadata: Any = ()) -> NoReturn:
        """End the call, and nothing else on the stream. Pushback is not needed: what is refused is not made again.

        Raises:
            AbortError: always.
        """
        self._code, self._details = code, details
        raise grpc.aio.AbortError
