"""Isolated controllers: one half, run in a worker process that is replaced when it spins, hangs or dies.

What a call does to its worker costs that call its outcome. Others that were in the same worker are asked again, one
after another in a worker of their own, so that whoever brings that one down as well is known for sure.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from pratique.answers import Allow, Deny, Patch
from pratique.calls import Call
from pratique.definitions import Halves, Phase
from pratique.errors import ConfigurationError
from pratique.isolation.workers import Worker, WorkerEndedError
from pratique.measures.series import Observed
from pratique.outcomes import Allowed, Denied, Failed, FailureKind, Patched
from pratique.rpc.single_calls import read_outcome, write_call
from pratique.running import FailedElsewhereError

if TYPE_CHECKING:
    from pratique.answers import Answer
    from pratique.isolation.plans import Plan
    from pratique.outcomes import Outcome
    from pratique.reviews import Review

_log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 0.1
"""Before a worker that ended is started again; doubled each time that it ends soon after."""
LONGEST_PAUSE_SECONDS = 2.0
"""A start takes half a second of a processor: with this pause, a fifth of one at worst. And a review that comes in the
pause still has time."""
_STEADY_SECONDS = 10.0
"""How long a worker has lived when the pause is the first one again."""

_STARTS = 3
"""How many starts in vain a call waits for, if it has the time: what keeps one from starting may pass."""

_ENDED = Failed(FailureKind.ERROR, "its process ended")
_NOT_STARTED = Failed(FailureKind.ERROR, "its process does not start")


class IsolatedController:
    """One half of a controller, and the process that runs it."""

    def __init__(self, plan: Plan, worker: Worker, *, amends: bool) -> None:
        """Use :meth:`start`."""
        self._plan = plan
        self._amends = amends or plan.phase is Phase.MUTATE
        self._worker = worker
        self._starting: asyncio.Task[Worker] | None = None
        self._pause = FIRST_PAUSE_SECONDS
        self._trial = _Trial(plan)
        self._restarts = 0
        self._keeping = {asyncio.ensure_future(self._keep(worker))}

    @classmethod
    async def start(cls, plan: Plan, *, amends: bool) -> IsolatedController:
        """Start the process, and wait until it is ready.

        Raises:
            ConfigurationError: the controller cannot be loaded or configured there.
        """
        return cls(plan, await Worker.start(plan), amends=amends)

    @property
    def halves(self) -> Halves:
        """The controller, as a service runs it."""
        mutates = self._plan.phase is Phase.MUTATE
        return Halves(
            mutate=self._ask if mutates else None,
            validate=None if mutates else self._ask,
            close=self.close,
            collectors=self._collectors(),
        )

    def _collectors(self) -> tuple[Observed, Observed]:
        name = (self._plan.controller,)
        return (
            Observed(
                "pratique_controller_process_restarts_total",
                "Starts of a controller's process after the first.",
                lambda: {name: self._restarts},
                "name",
            ),
            Observed(
                "pratique_controller_process_up",
                "1 where a controller's process can be asked.",
                lambda: {name: int(self._worker.usable)},
                "name",
            ),
        )

    async def close(self) -> None:
        """End the processes."""
        for task in (*self._keeping, self._starting):
            if task is not None:
                task.cancel()
        tasks = [task for task in (*self._keeping, self._starting) if task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._trial.close()
        await self._worker.close()

    async def _ask(self, review: Review) -> Answer:
        seconds = None if review.deadline is None else review.deadline.remaining_seconds
        call = Call(self._plan.controller, seconds, self._amends, review.again, explain=review.explain)
        request = write_call(review, call)
        worker = await self._usable()
        try:
            raw = await worker.ask(request, repeated=review.repeats)
        except WorkerEndedError as error:
            if error.alone:
                raise FailedElsewhereError(_ENDED) from None
            raw = await self._trial.ask(request)
        return _answer(read_outcome(raw, call))

    async def _usable(self) -> Worker:
        for _ in range(_STARTS):
            if self._worker.usable:
                return self._worker
            with contextlib.suppress(ConfigurationError):
                return await asyncio.shield(self._begin())
        raise FailedElsewhereError(_NOT_STARTED)

    def _begin(self) -> asyncio.Task[Worker]:
        """Start another worker, where that is not under way."""
        if self._starting is None or self._starting.done():
            self._starting = asyncio.ensure_future(self._start())
            self._starting.add_done_callback(_tell_failure)
        return self._starting

    async def _start(self) -> Worker:
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE_SECONDS)
        await asyncio.sleep(pause)
        before, self._worker = self._worker, await Worker.start(self._plan)
        self._restarts += 1
        before.retire()
        keeping = asyncio.ensure_future(self._keep(self._worker))
        self._keeping.add(keeping)
        keeping.add_done_callback(self._keeping.discard)
        return self._worker

    async def _keep(self, worker: Worker) -> None:
        """Start another when this one has ended or is stuck, without waiting for the next call."""
        stuck = asyncio.Event()
        worker.on_stuck = stuck.set
        watches = [asyncio.ensure_future(event.wait()) for event in (stuck, worker.ended)]
        try:
            first = asyncio.FIRST_COMPLETED
            happened, _ = await asyncio.wait(watches, timeout=_STEADY_SECONDS, return_when=first)
            if not happened:
                self._pause = FIRST_PAUSE_SECONDS
                await asyncio.wait(watches, return_when=first)
            if worker is self._worker:
                self._begin()
            await worker.ended.wait()
        finally:
            for watch in watches:
                watch.cancel()
            if not worker.ended.is_set() and worker is not self._worker:
                await worker.kill()


class _Trial:
    """A worker for calls that were in one that died, each of them alone in it."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._alone = asyncio.Lock()
        self._worker: Worker | None = None
        self._suspects = 0

    async def ask(self, request: bytes) -> bytes:
        """Ask again; a call that ends this worker, too, has failed."""
        self._suspects += 1
        try:
            async with self._alone:
                return await self._ask(request)
        except WorkerEndedError:
            raise FailedElsewhereError(_ENDED) from None
        except ConfigurationError:
            raise FailedElsewhereError(_NOT_STARTED) from None
        finally:
            self._suspects -= 1
            if not self._suspects:
                self._leave()

    async def _ask(self, request: bytes) -> bytes:
        if self._worker is None or not self._worker.usable:
            self._worker = await Worker.start(self._plan)
        try:
            return await self._worker.ask(request, repeated=True)
        except asyncio.CancelledError:
            self._leave()
            raise

    def _leave(self) -> None:
        if self._worker is not None:
            self._worker.retire()

    async def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            await self._worker.close()


def _tell_failure(starting: asyncio.Task[Worker]) -> None:
    error = None if starting.cancelled() else starting.exception()
    if error is not None:
        _log.error("a controller's process does not start", extra={"reason": str(error)})


def _answer(outcome: Outcome) -> Answer:
    """Make an answer again of the outcome of a half that ran elsewhere."""
    warnings, annotations, parts = outcome.warnings, outcome.audit_annotations, outcome.parts
    match outcome.decision:
        case Allowed():
            return Allow(warnings, annotations, parts)
        case Patched(operations):
            return Patch(operations, None, warnings, annotations, parts)
        case Denied(status):
            return Deny(status, "", warnings, annotations, parts)
        case Failed() as failed:
            raise FailedElsewhereError(failed)
