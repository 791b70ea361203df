"""Isolated controllers: each runs a handler in a worker process, which is replaced when it ends or hangs.

A call that was alone in a worker when it ended has failed. Calls that shared the worker are repeated one at a time in a
second worker, so that only the call that ends it fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import signal
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from pratique.admission.controllers import Handlers, Phase
from pratique.admission.results import (
    Allow,
    Allowed,
    Answer,
    Denied,
    Deny,
    Failed,
    FailureKind,
    Outcome,
    Patch,
    Patched,
)
from pratique.admission.reviews import Call, Review
from pratique.apimachinery.errors import ConfigurationError, ReviewError
from pratique.apimachinery.prepared_types import prepared
from pratique.hosting.running import RemoteFailureError
from pratique.hosting.services import WorkerPlan, WorkerReadiness
from pratique.processes.frames import FrameKind, ProcessFrame, encode_frame, read_frame
from pratique.processes.subprocesses import ChildProcess
from pratique.rpc.messages import read_outcome, write_call
from pratique.telemetry.metrics import CallbackMetric
from pratique.telemetry.worker_metrics import WorkerMetrics

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

_log = logging.getLogger(__name__)

GRACE_SECONDS = 1.0
"""How many seconds a worker may take to confirm a cancelled call. If it takes longer, its event loop is blocked."""
START_SECONDS = 120.0
"""How many seconds a worker may take to start. A package may load a model first."""

_WORKER_MODULE = "pratique.hosting.worker_process"


class WorkerEndedError(Exception):
    """The worker ended before it answered.

    ``alone`` means that it had no other call, so that no other call can have ended it.
    """

    def __init__(self, *, alone: bool) -> None:
        """Tell whether the call was alone."""
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
        self._waiting: dict[int, asyncio.Future[ProcessFrame]] = {}
        self._retired = False
        self._closing = False
        self.on_stuck: Callable[[], None] = lambda: None
        """Called when one of its threads exceeds its time limit, so that the worker should be replaced."""
        self.on_metrics: Callable[[bytes], None] = lambda _: None
        """Called with the metrics of its controller whenever they have changed."""
        self._listening: asyncio.Task[None] | None = None
        self.ended = asyncio.Event()
        """Set once the process is gone."""

    @classmethod
    async def start(cls, plan: WorkerPlan) -> Worker:
        """Start a process, and wait until it is ready.

        Raises:
            ConfigurationError: the plan cannot be carried out, or the process ended before it was ready.
        """
        here, there = socket.socketpair()
        with there:
            process = ChildProcess(_WORKER_MODULE, there.fileno())
        worker = cls(plan.controller, process, await asyncio.open_unix_connection(sock=here))
        try:
            async with asyncio.timeout(START_SECONDS):
                await worker._send_plan(plan)
        except BaseException:
            await worker.kill()
            raise
        worker._listening = asyncio.ensure_future(worker._listen())
        return worker

    async def _send_plan(self, plan: WorkerPlan) -> None:
        self._writer.write(encode_frame(ProcessFrame(FrameKind.PLAN, body=msgspec.json.encode(plan))))
        try:
            answer = await read_frame(self._reader)
        except (EOFError, OSError):
            code = await self._process.wait()
            text = f"admission controller {self._name}: its process {_exit_description(code)} before it was ready"
            raise ConfigurationError(text) from None
        error = msgspec.json.decode(answer.body, type=prepared(WorkerReadiness)).error
        if error:
            raise ConfigurationError(error)

    @property
    def usable(self) -> bool:
        """Whether it accepts calls: it has not ended and is not about to."""
        return not self._retired and self._is_connected

    @property
    def _is_connected(self) -> bool:
        # The connection closes before the process is known to have ended, and uvloop refuses to write to it.
        return not self.ended.is_set() and not self._writer.is_closing()

    async def ask(self, request: bytes, *, repeated: bool = False) -> bytes:
        """Return the outcome of a call. If this is cancelled, the worker must confirm that in time, or is killed.

        Raises:
            ReviewError: the reviewed object is not JSON.
            WorkerEndedError: it ended before it answered.
        """
        if not self._is_connected:
            raise WorkerEndedError(alone=False)
        number = next(self._numbers)
        answered: asyncio.Future[ProcessFrame] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answered
        kind = FrameKind.REPEATED_CALL if repeated else FrameKind.CALL
        self._writer.write(encode_frame(ProcessFrame(kind, number, request)))
        try:
            frame = await answered
        except asyncio.CancelledError:
            self._cancel_call(number)
            raise
        if frame.kind is FrameKind.UNREADABLE:
            raise ReviewError(frame.body.decode())
        return frame.body

    def _cancel_call(self, number: int) -> None:
        if number in self._waiting and self._is_connected:
            self._writer.write(encode_frame(ProcessFrame(FrameKind.CANCEL, number)))
            asyncio.get_running_loop().call_later(GRACE_SECONDS, self._kill_if_blocked, number)

    def _kill_if_blocked(self, number: int) -> None:
        if number in self._waiting and not self.ended.is_set():
            reason = "it does not react"
            _log.error("a controller's process is killed", extra={"controller": self._name, "reason": reason})
            self._process.kill()

    async def _listen(self) -> None:
        """Handle the worker's frames until it has ended, and fail the calls that it has not answered."""
        with contextlib.suppress(EOFError, OSError, ValueError):
            while True:
                self._handle(await read_frame(self._reader))
        if not self._closing:
            self._process.kill()
        code = await self._process.wait()
        if not self._retired:
            extra = {"controller": self._name, "reason": _exit_description(code)}
            _log.error("a controller's process ended", extra=extra)
        self._fail_waiting_calls()

    def _handle(self, frame: ProcessFrame) -> None:
        if frame.kind is FrameKind.STUCK:
            self.on_stuck()
            return
        if frame.kind is FrameKind.METRICS:
            self.on_metrics(frame.body)
            return
        answered = self._waiting.pop(frame.number, None)
        if answered is not None and not answered.done():
            answered.set_result(frame)
        if self._retired and not self._waiting:
            self._process.kill()

    def _fail_waiting_calls(self) -> None:
        self.ended.set()
        waiting = [answered for answered in self._waiting.values() if not answered.done()]
        for answered in waiting:
            answered.set_exception(WorkerEndedError(alone=len(self._waiting) == 1))
        self._waiting.clear()
        self._writer.close()

    def retire(self) -> None:
        """Accept no more calls, and end once those in progress are answered."""
        self._retired = True
        if not self._waiting:
            self._process.kill()

    async def kill(self) -> None:
        """End at once."""
        self._retired = True
        self._process.kill()
        await self._process.wait()
        if self._listening is None:
            self._fail_waiting_calls()
        else:
            await self._listening

    async def close(self) -> None:
        """Let the controller close, and end."""
        self._retired = self._closing = True
        self._writer.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), GRACE_SECONDS)
        await self.kill()


def _exit_description(code: int) -> str:
    if code >= 0:
        return f"exited with {code}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"


FIRST_PAUSE_SECONDS = 0.1
"""The pause in seconds before a worker is restarted; doubled each time that it ends soon after."""
MAX_PAUSE_SECONDS = 2.0
"""A start takes half a second of a CPU, so that with this pause restarts take at most a fifth of one. And a review that
arrives during the pause still has time."""
_STABLE_SECONDS = 10.0
"""The seconds after which a worker counts as stable, and the pause is the first one again."""

_MAX_STARTS = 3
"""How many failed starts a call waits for, if it has time, because the cause may be temporary."""

_PROCESS_ENDED = Failed(FailureKind.ERROR, "its process ended")
_PROCESS_NOT_STARTED = Failed(FailureKind.ERROR, "its process does not start")


class IsolatedController:
    """One handler of a controller, and the process that runs it."""

    def __init__(self, plan: WorkerPlan, worker: Worker, *, may_patch: bool) -> None:
        """Use :meth:`start`."""
        self._plan = plan
        self._may_patch = may_patch or plan.phase is Phase.MUTATE
        self._worker = worker
        self._starting: asyncio.Task[Worker] | None = None
        self._pause = FIRST_PAUSE_SECONDS
        self._retry_worker = _RetryWorker(plan)
        self._restarts = 0
        self._metrics = WorkerMetrics(plan.controller)
        worker.on_metrics = self._metrics.receive
        self._supervising = {asyncio.ensure_future(self._supervise(worker))}

    @classmethod
    async def start(cls, plan: WorkerPlan, *, may_patch: bool) -> IsolatedController:
        """Start the process, and wait until it is ready.

        Raises:
            ConfigurationError: the controller cannot be loaded or configured there.
        """
        return cls(plan, await Worker.start(plan), may_patch=may_patch)

    @property
    def handlers(self) -> Handlers:
        """The controller's handlers, which call the process."""
        mutates = self._plan.phase is Phase.MUTATE
        return Handlers(
            mutate=self._ask if mutates else None,
            validate=None if mutates else self._ask,
            close=self.close,
            collectors=self._collectors(),
        )

    def _collectors(self) -> tuple[Collector, ...]:
        name = (self._plan.controller,)
        return (
            CallbackMetric(
                "pratique_controller_process_restarts_total",
                "Starts of a controller's process after the first.",
                lambda: {name: self._restarts},
                "name",
            ),
            CallbackMetric(
                "pratique_controller_process_up",
                "1 where a controller's process can be asked.",
                lambda: {name: int(self._worker.usable)},
                "name",
            ),
            self._metrics,
        )

    async def close(self) -> None:
        """End the processes."""
        tasks = [task for task in (*self._supervising, self._starting) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._retry_worker.close()
        await self._worker.close()

    async def _ask(self, review: Review) -> Answer:
        seconds = None if review.deadline is None else review.deadline.remaining_seconds
        call = Call(
            self._plan.controller,
            seconds,
            may_patch=self._may_patch,
            only=review.only,
            explain=review.explain,
        )
        request = write_call(review, call)
        worker = await self._usable()
        try:
            raw = await worker.ask(request, repeated=review.is_retry)
        except WorkerEndedError as error:
            if error.alone:
                raise RemoteFailureError(_PROCESS_ENDED, deadly=True) from None
            raw = await self._retry_worker.ask(request)
        return _answer_from_outcome(read_outcome(raw, call))

    async def _usable(self) -> Worker:
        for _ in range(_MAX_STARTS):
            if self._worker.usable:
                return self._worker
            with contextlib.suppress(ConfigurationError):
                return await asyncio.shield(self._restart())
        raise RemoteFailureError(_PROCESS_NOT_STARTED)

    def _restart(self) -> asyncio.Task[Worker]:
        """Start another worker, unless one is starting."""
        if self._starting is None or self._starting.done():
            self._starting = asyncio.ensure_future(self._start())
            self._starting.add_done_callback(_log_start_failure)
        return self._starting

    async def _start(self) -> Worker:
        pause, self._pause = self._pause, min(self._pause * 2, MAX_PAUSE_SECONDS)
        await asyncio.sleep(pause)
        before, self._worker = self._worker, await Worker.start(self._plan)
        self._worker.on_metrics = self._metrics.receive
        self._restarts += 1
        before.retire()
        supervising = asyncio.ensure_future(self._supervise(self._worker))
        self._supervising.add(supervising)
        supervising.add_done_callback(self._supervising.discard)
        return self._worker

    async def _supervise(self, worker: Worker) -> None:
        """Start another worker as soon as this one has ended or is stuck, before the next call."""
        stuck = asyncio.Event()
        worker.on_stuck = stuck.set
        watches = [asyncio.ensure_future(event.wait()) for event in (stuck, worker.ended)]
        try:
            first = asyncio.FIRST_COMPLETED
            happened, _ = await asyncio.wait(watches, timeout=_STABLE_SECONDS, return_when=first)
            if not happened:
                self._pause = FIRST_PAUSE_SECONDS
                await asyncio.wait(watches, return_when=first)
            if worker is self._worker:
                self._restart()
            await worker.ended.wait()
        finally:
            for watch in watches:
                watch.cancel()
            if not worker.ended.is_set() and worker is not self._worker:
                await worker.kill()


class _RetryWorker:
    """A worker that repeats the calls of one that ended, one call at a time."""

    def __init__(self, plan: WorkerPlan) -> None:
        self._plan = plan
        self._alone = asyncio.Lock()
        self._worker: Worker | None = None
        self._waiting = 0

    async def ask(self, request: bytes) -> bytes:
        """Repeat a call; if it ends this worker too, it has failed."""
        self._waiting += 1
        try:
            async with self._alone:
                return await self._ask(request)
        except WorkerEndedError:
            raise RemoteFailureError(_PROCESS_ENDED, deadly=True) from None
        except ConfigurationError:
            raise RemoteFailureError(_PROCESS_NOT_STARTED) from None
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._retire()

    async def _ask(self, request: bytes) -> bytes:
        if self._worker is None or not self._worker.usable:
            self._worker = await Worker.start(self._plan)
        try:
            return await self._worker.ask(request, repeated=True)
        except asyncio.CancelledError:
            self._retire()
            raise

    def _retire(self) -> None:
        if self._worker is not None:
            self._worker.retire()

    async def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            await self._worker.close()


def _log_start_failure(starting: asyncio.Task[Worker]) -> None:
    error = None if starting.cancelled() else starting.exception()
    if error is not None:
        _log.error("a controller's process does not start", extra={"reason": str(error)})


def _answer_from_outcome(outcome: Outcome) -> Answer:
    """Turn the outcome of a remote handler back into an answer."""
    warnings, annotations, policies = outcome.warnings, outcome.audit_annotations, outcome.policy_outcomes
    match outcome.decision:
        case Allowed():
            return Allow(warnings, annotations, policies)
        case Patched(operations):
            return Patch(operations, None, warnings, annotations, policies)
        case Denied(status):
            return Deny(status, "", warnings, annotations, policies)
        case Failed() as failed:
            raise RemoteFailureError(failed)
