"""A worker process: runs one half of one controller for a service.

The service starts it by :mod:`pratique.isolation.workers`, as
``python -m pratique.isolation.worker_process FD``; that file is a socket to the service.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import socket
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pratique.calls import Deadline
from pratique.catalogues import find_in_package
from pratique.errors import ConfigurationError, ReviewError
from pratique.hosted_controllers import configured
from pratique.hosting import hosting_of
from pratique.isolation.frames import Frame, FrameKind, encode_frame, read_frame
from pratique.isolation.lifelines import end_with_parent
from pratique.isolation.plans import Plan, Readiness
from pratique.logs import configure_logging, log_loop_error
from pratique.provisioning import with_provisioned
from pratique.rpc.single_calls import read_call, write_outcome
from pratique.running import runners
from pratique.settings import ChainSettings
from pratique.tracebacks import described

if TYPE_CHECKING:
    from pratique.clusters import Cluster
    from pratique.hosted_controllers import HostedController
    from pratique.running import Runner

_log = logging.getLogger(__name__)

STUCK_SECONDS = 1.0
"""How long after its time a thread may go on before the worker is to be replaced: most that are late end by then."""


class _Calls:
    """The calls of the service, each a task."""

    def __init__(
        self, runner: Runner, cluster: Cluster, writer: asyncio.StreamWriter, *, provisions: bool
    ) -> None:
        self._runner = runner
        self._cluster = cluster
        self._provisions = provisions
        self._writer = writer
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def take(self, frame: Frame) -> None:
        """Begin with a call, or give one up."""
        if frame.kind is FrameKind.CANCEL:
            if frame.number in self._tasks:
                self._tasks[frame.number].cancel()
            return
        task = asyncio.ensure_future(self._answer(frame))
        self._tasks[frame.number] = task
        task.add_done_callback(lambda _: self._tasks.pop(frame.number))

    async def _answer(self, frame: Frame) -> None:
        kind, body = FrameKind.OUTCOME, b""
        try:
            body = await self._outcome(frame)
        except asyncio.CancelledError:
            pass  # the service knows, and wants to hear that it was heard
        except ReviewError as error:
            kind, body = FrameKind.UNREADABLE, str(error).encode()
        self._send(Frame(kind, frame.number, body))

    async def _outcome(self, frame: Frame) -> bytes:
        review, call = read_call(frame.body, self._cluster)
        if self._provisions:
            review = with_provisioned(review)
        if frame.kind is FrameKind.REPEATED_CALL:
            review = dataclasses.replace(review, repeats=True)
        ends = Deadline.after(call.timeout_seconds or 0)
        try:
            return write_outcome((await self._runner.run(review, call)).outcome)
        finally:
            if self._runner.lane is not None and self._runner.lane.left_behind:
                late = ends.remaining_seconds + STUCK_SECONDS
                asyncio.get_running_loop().call_later(late, self._tell_if_stuck, frame.number)

    def _tell_if_stuck(self, number: int) -> None:
        if self._runner.lane is not None and self._runner.lane.left_behind:
            self._send(Frame(FrameKind.STUCK, number))

    def _send(self, frame: Frame) -> None:
        self._writer.write(encode_frame(frame))


async def _serve(connection: socket.socket) -> None:
    asyncio.get_running_loop().set_exception_handler(log_loop_error)
    reader, writer = await asyncio.open_unix_connection(sock=connection)
    plan = msgspec.json.decode((await read_frame(reader)).body, type=Plan)
    configure_logging(plan.service)
    sys.path[:] = plan.path
    try:
        await _carry_out(plan, reader, writer)
    except ConfigurationError as error:
        _answer_plan(writer, str(error))
        await writer.drain()
        writer.close()
    except (EOFError, OSError):
        pass  # the service is gone


async def _carry_out(plan: Plan, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    hosted = _hosted(plan)
    settings = ChainSettings(
        config=tuple(map(Path, plan.config)),
        cluster=None if plan.cluster is None else tuple(map(Path, plan.cluster)),
    )
    async with hosting_of(settings, [hosted]) as cluster:
        runner = runners([hosted], plan.phase)[plan.controller]
        calls = _Calls(runner, cluster, writer, provisions=plan.provisions)
        _answer_plan(writer, "")
        try:
            while True:
                calls.take(await read_frame(reader))
        finally:
            await hosted.halves.close()


def _hosted(plan: Plan) -> HostedController:
    try:
        return configured(find_in_package(plan.origin, plan.controller), plan.configuration)
    except ConfigurationError as error:
        raise ConfigurationError(f"{plan.source}: {error}" if plan.source else str(error)) from None


def _answer_plan(writer: asyncio.StreamWriter, error: str) -> None:
    writer.write(encode_frame(Frame(FrameKind.READY, body=msgspec.json.encode(Readiness(error)))))


def main(descriptor: int) -> None:
    """Serve the service at the other end of a socket until it is gone."""
    end_with_parent()
    configure_logging("worker")
    threading.excepthook = lambda told: _tell_unhandled(told.exc_value)
    code = 0
    try:
        asyncio.run(_serve(socket.socket(fileno=descriptor)))
    except BaseException as error:  # noqa: BLE001 - its text may quote a reviewed object: not to standard error
        _tell_unhandled(error)
        code = 1
    logging.shutdown()
    os._exit(code)  # threads that never end must not keep the process


def _tell_unhandled(error: BaseException | None) -> None:
    _log.error("unhandled error in a worker", extra={"error": "" if error is None else described(error)})


if __name__ == "__main__":
    main(int(sys.argv[1]))
