"""Workers: the processes in which other people's controllers run, as a service sees them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import signal
import socket
from typing import TYPE_CHECKING

import msgspec

from pratique.errors import ConfigurationError, ReviewError
from pratique.isolation.child_processes import ChildProcess
from pratique.isolation.frames import Frame, FrameKind, encode_frame, read_frame
from pratique.isolation.plans import Plan, Readiness

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)

GRACE_SECONDS = 1.0
"""How long a worker may take to say that it gave a call up. What takes longer keeps its event loop from running."""
START_SECONDS = 60.0
"""How long a worker may take to be ready: somebody's package may load a model first."""

_MODULE = "pratique.isolation.worker_process"


class WorkerEndedError(Exception):
    """The worker ended before it answered.

    ``alone`` is true where it had no other call, so that this one, or nobody, is to blame.
    """

    def __init__(self, *, alone: bool) -> None:
        """Say whether it had others."""
        super().__init__("its process ended")
        self.alone = alone


class Worker:
    """One worker process."""

    def __init__(
        self,
        name: str,
        process: ChildProcess,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        """Use :meth:`start`."""
        self._name = name
        self._process = process
        self._reader, self._writer = streams
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Frame]] = {}
        self._retired = False
        self._closing = False
        self.on_stuck: Callable[[], None] = lambda: None
        """Called when a thread of it goes on though its time is over: it should be replaced."""
        self._listening: asyncio.Task[None] | None = None
        self.ended = asyncio.Event()
        """Set once the process is gone."""

    @classmethod
    async def start(cls, plan: Plan) -> Worker:
        """Start a process, and wait until it is ready.

        Raises:
            ConfigurationError: the plan cannot be carried out, or the process ended over it.
        """
        here, there = socket.socketpair()
        with there:
            process = ChildProcess(_MODULE, there.fileno())
        worker = cls(plan.controller, process, await asyncio.open_unix_connection(sock=here))
        try:
            async with asyncio.timeout(START_SECONDS):
                await worker._agree(plan)
        except BaseException:
            await worker.kill()
            raise
        worker._listening = asyncio.ensure_future(worker._listen())
        return worker

    async def _agree(self, plan: Plan) -> None:
        self._writer.write(encode_frame(Frame(FrameKind.PLAN, body=msgspec.json.encode(plan))))
        try:
            answer = await read_frame(self._reader)
        except (EOFError, OSError):
            code = await self._process.wait()
            text = f"admission controller {self._name}: its process {_ending(code)} before it was ready"
            raise ConfigurationError(text) from None
        error = msgspec.json.decode(answer.body, type=Readiness).error
        if error:
            raise ConfigurationError(error)

    @property
    def usable(self) -> bool:
        """False where it has ended, or is about to."""
        return not self._retired and self._hears

    @property
    def _hears(self) -> bool:
        # Its end of the connection is gone before the process is known to be. uvloop refuses to write there.
        return not self.ended.is_set() and not self._writer.is_closing()

    async def ask(self, request: bytes, *, repeated: bool = False) -> bytes:
        """Have the outcome of a call. Where nobody waits any longer, it has to give the call up in time, or is killed.

        Raises:
            ReviewError: the reviewed object is not JSON.
            WorkerEndedError: it ended before it answered.
        """
        if not self._hears:
            raise WorkerEndedError(alone=False)
        number = next(self._numbers)
        answered: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answered
        kind = FrameKind.REPEATED_CALL if repeated else FrameKind.CALL
        self._writer.write(encode_frame(Frame(kind, number, request)))
        try:
            frame = await answered
        except asyncio.CancelledError:
            self._give_up(number)
            raise
        if frame.kind is FrameKind.UNREADABLE:
            raise ReviewError(frame.body.decode())
        return frame.body

    def _give_up(self, number: int) -> None:
        if number in self._waiting and self._hears:
            self._writer.write(encode_frame(Frame(FrameKind.CANCEL, number)))
            asyncio.get_running_loop().call_later(GRACE_SECONDS, self._kill_if_deaf, number)

    def _kill_if_deaf(self, number: int) -> None:
        if number in self._waiting and not self.ended.is_set():
            reason = "it hears nothing any longer"
            _log.error("a controller's process is killed", extra={"controller": self._name, "reason": reason})
            self._process.kill()

    async def _listen(self) -> None:
        """Take in what the worker says until it has ended; what it has not answered then, it never will."""
        with contextlib.suppress(EOFError, OSError, ValueError):
            while True:
                self._hear(await read_frame(self._reader))
        if not self._closing:
            self._process.kill()
        code = await self._process.wait()
        if not self._retired:
            extra = {"controller": self._name, "reason": _ending(code)}
            _log.error("a controller's process ended", extra=extra)
        self._let_go()

    def _hear(self, frame: Frame) -> None:
        if frame.kind is FrameKind.STUCK:
            self.on_stuck()
            return
        answered = self._waiting.pop(frame.number, None)
        if answered is not None and not answered.done():
            answered.set_result(frame)
        if self._retired and not self._waiting:
            self._process.kill()

    def _let_go(self) -> None:
        self.ended.set()
        waiting = [each for each in self._waiting.values() if not each.done()]
        for answered in waiting:
            answered.set_exception(WorkerEndedError(alone=len(self._waiting) == 1))
        self._waiting.clear()
        self._writer.close()

    def retire(self) -> None:
        """Take no more calls, and end once those under way are answered."""
        self._retired = True
        if not self._waiting:
            self._process.kill()

    async def kill(self) -> None:
        """End at once."""
        self._retired = True
        self._process.kill()
        await self._process.wait()
        if self._listening is None:
            self._let_go()
        else:
            await self._listening

    async def close(self) -> None:
        """Let the controller go of what it holds, and end."""
        self._retired = self._closing = True
        self._writer.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), GRACE_SECONDS)
        await self.kill()


def _ending(code: int) -> str:
    if code >= 0:
        return f"exited with {code}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"
