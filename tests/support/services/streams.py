"""A client of streams of calls that does nothing by itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc

from pratique.admission.controllers import Phase
from pratique.admission.reviews import Call
from pratique.admission.v1.stream_pb2 import StreamedAnswer, StreamedCall
from pratique.rpc.streams import STREAMED_METHODS
from support.services.reviews import review_of
from support.services.servers import MUTATOR, Kind

SECONDS = 10


class Stream:
    """One stream of a mutator or a validator."""

    def __init__(self, kind: Kind, call: Any) -> None:
        """Use :func:`streaming`."""
        self.kind = kind
        self.method = STREAMED_METHODS[Phase.MUTATE if kind is MUTATOR else Phase.VALIDATE]
        self.call = call
        self._answers: list[StreamedAnswer] = []
        self.leaving = asyncio.Event()

    def asking(self, number: int, controller: str, millis: int = 10_000, **more: Any) -> StreamedCall:
        """A call of one controller."""
        request = self.kind.request(review_of(), [Call(controller)]).SerializeToString()
        return StreamedCall(**{"id": number, "timeout_millis": millis, "request": request} | more)

    async def send(self, *calls: StreamedCall, give_up: tuple[int, ...] = ()) -> None:
        """Send calls in one message."""
        await self.call.write(self.method.request_type(calls=calls, given_up_ids=give_up).SerializeToString())

    async def receive(self) -> bool:
        """Read one message; false at the end."""
        message = await asyncio.wait_for(self.call.read(), SECONDS)
        if message is grpc.aio.EOF:  # type: ignore[attr-defined]  # the stubs lack it
            return False
        response = self.method.response_type.FromString(message)
        self._answers += response.answers
        if response.leaving:
            self.leaving.set()
        return True

    async def answer(self) -> StreamedAnswer:
        """The next answer."""
        while not self._answers:
            assert await self.receive()
        return self._answers.pop(0)

    async def decision(self) -> tuple[int, str]:
        """The id of the next answer, and its outcome, or the name of its code."""
        answer = await self.answer()
        if answer.HasField("status"):
            return answer.id, next(
                code.name for code in grpc.StatusCode if code.value[0] == answer.status.code
            )
        [outcome] = self.kind.outcomes(
            self.kind.response.FromString(answer.response), [Call(self._name(answer))]
        )
        return answer.id, type(outcome.decision).__name__

    def _name(self, answer: StreamedAnswer) -> str:
        response: Any = self.kind.response.FromString(answer.response)
        [outcome] = response.steps if self.kind is MUTATOR else response.verdicts
        return str(outcome.controller)


@contextlib.asynccontextmanager
async def streaming(kind: Kind, channel: grpc.aio.Channel) -> AsyncIterator[Stream]:
    """Open a stream, and read its greeting."""
    method = STREAMED_METHODS[Phase.MUTATE if kind is MUTATOR else Phase.VALIDATE]
    opened: Any = channel.stream_stream(method.stream_path, None, None)
    stream = Stream(kind, opened())
    try:
        assert await stream.receive()
        yield stream
    finally:
        stream.call.cancel()
