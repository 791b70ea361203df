"""A worker process: runs one handler of one controller for a service.

:mod:`pratique.hosting.isolated_controllers` starts it as ``python -m pratique.hosting.worker_process FD``, where FD
is a socket to the service.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
import threading
from pathlib import Path

import msgspec

from pratique.admission.results import Failed, FailureKind, Outcome
from pratique.admission.reviews import Deadline
from pratique.apimachinery.errors import ConfigurationError, ReviewError
from pratique.apimachinery.prepared_types import prepared
from pratique.configuration.input_digests import RecentInputs
from pratique.configuration.settings import ChainSettings
from pratique.hosting.catalogue import (
    HostedController,
    configure_controller,
    find_in_package,
    without_selection,
)
from pratique.hosting.running import ControllerHost
from pratique.hosting.services import (
    ReloadedInputs,
    WorkerPlan,
    WorkerReadiness,
    open_configurations,
    open_live_cluster,
)
from pratique.processes.frames import FrameKind, ProcessFrame, encode_frame, read_frame
from pratique.processes.parent_death import end_with_parent
from pratique.processes.thread_pool import ControllerThreads
from pratique.rpc.messages import IncomingCall, write_outcome
from pratique.telemetry.logs import configure_logging, describe_error, log_loop_error
from pratique.telemetry.worker_metrics import send_metrics

_log = logging.getLogger(__name__)

STUCK_SECONDS = 1.0
"""How many seconds a thread may exceed its time limit before the worker is replaced. Most late threads end by then."""


class _WorkerCalls:
    """The service's calls, each in a task."""

    def __init__(
        self, controller: str, held: RecentInputs[ControllerHost], writer: asyncio.StreamWriter
    ) -> None:
        self._controller = controller
        self._held = held
        self._writer = writer
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def handle(self, frame: ProcessFrame) -> None:
        """Start a call, or cancel one."""
        if frame.kind is FrameKind.CANCEL:
            if frame.number in self._tasks:
                self._tasks[frame.number].cancel()
            return
        task = asyncio.ensure_future(self._answer(frame))
        self._tasks[frame.number] = task
        task.add_done_callback(lambda _: self._tasks.pop(frame.number))

    async def _answer(self, frame: ProcessFrame) -> None:
        kind, body = FrameKind.OUTCOME, b""
        try:
            body = await self._outcome(frame)
        except asyncio.CancelledError:
            pass  # the service cancelled it and waits for the confirmation
        except ReviewError as error:
            kind, body = FrameKind.UNREADABLE, str(error).encode()
        self._send(ProcessFrame(kind, frame.number, body))

    async def _outcome(self, frame: ProcessFrame) -> bytes:
        incoming = IncomingCall(frame.body)
        # This process and its service reload files one after the other: missing inputs will arrive in a moment.
        host = await self._held.wait_for(incoming.digest, incoming.seconds)
        if host is None:
            failed = Failed(FailureKind.ERROR, "its process has another configuration or cluster")
            return write_outcome(Outcome(controller=self._controller, decision=failed))
        runner = host.runners[self._controller]
        review, call = incoming.read(host.cluster)
        review = host.in_cluster(review)
        if frame.kind is FrameKind.REPEATED_CALL:
            review = msgspec.structs.replace(review, is_retry=True)
        deadline = Deadline.after(call.timeout_seconds or 0)
        try:
            return write_outcome((await runner.run(review, call)).outcome)
        finally:
            if runner.threads is not None and runner.threads.abandoned:
                delay = deadline.remaining_seconds + STUCK_SECONDS
                asyncio.get_running_loop().call_later(
                    delay, self._report_if_stuck, runner.threads, frame.number
                )

    def _report_if_stuck(self, threads: ControllerThreads, number: int) -> None:
        if threads.abandoned:
            self._send(ProcessFrame(FrameKind.STUCK, number))

    def _send(self, frame: ProcessFrame) -> None:
        self._writer.write(encode_frame(frame))


async def _serve(connection: socket.socket) -> None:
    asyncio.get_running_loop().set_exception_handler(log_loop_error)
    reader, writer = await asyncio.open_unix_connection(sock=connection)
    plan = msgspec.json.decode((await read_frame(reader)).body, type=prepared(WorkerPlan))
    configure_logging(plan.service)
    sys.path[:] = plan.path
    try:
        await _run_plan(plan, reader, writer)
    except ConfigurationError as error:
        _send_readiness(writer, str(error))
        await writer.drain()
        writer.close()
    except (EOFError, OSError):
        pass  # the service is gone


async def _run_plan(plan: WorkerPlan, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    hosted = _configured_controller(plan)
    settings = ChainSettings(
        config=tuple(map(Path, plan.config)),
        cluster=None if plan.cluster is None else tuple(map(Path, plan.cluster)),
        kubeconfig=Path(plan.kubeconfig) if plan.kubeconfig else None,
        context=plan.context,
        in_cluster=plan.in_cluster,
        cluster_staleness_seconds=plan.cluster_staleness_seconds,
        policies_from=plan.policies_from,
        authorizer=plan.authorizer,
        authorized_seconds=plan.authorized_seconds,
        unauthorized_seconds=plan.unauthorized_seconds,
        reload_grace_seconds=plan.reload_grace_seconds,
    )
    live = await open_live_cluster(settings, hosted.controller.looks_up)
    inputs = ReloadedInputs(
        settings,
        plan.chain,
        [hosted],
        lambda cluster: ControllerHost([hosted], cluster, plan.phase, provisions=plan.provisions),
        configuration=await open_configurations(settings, live),
        live=live,
    )
    await inputs.warm_up(inputs.configuration.value)
    async with contextlib.AsyncExitStack() as stack:
        if live is not None:
            stack.push_async_callback(live.close)
        await stack.enter_async_context(inputs.kept_up_to_date())
        calls = _WorkerCalls(plan.controller, inputs.held, writer)
        _send_readiness(writer, "")
        if hosted.handlers.collectors:
            sending = asyncio.ensure_future(_send_metrics(hosted, writer))
            stack.callback(sending.cancel)
        try:
            while True:
                calls.handle(await read_frame(reader))
        finally:
            await hosted.handlers.close()


async def _send_metrics(hosted: HostedController, writer: asyncio.StreamWriter) -> None:
    def send(text: bytes) -> None:
        writer.write(encode_frame(ProcessFrame(FrameKind.METRICS, body=text)))

    await send_metrics(hosted.handlers.collectors, send)


def _configured_controller(plan: WorkerPlan) -> HostedController:
    try:
        found = find_in_package(plan.origin, plan.controller)
        return without_selection(configure_controller(found, plan.configuration))
    except ConfigurationError as error:
        raise ConfigurationError(f"{plan.source}: {error}" if plan.source else str(error)) from None


def _send_readiness(writer: asyncio.StreamWriter, error: str) -> None:
    writer.write(
        encode_frame(ProcessFrame(FrameKind.READY, body=msgspec.json.encode(WorkerReadiness(error))))
    )


def main(descriptor: int) -> None:
    """Run calls from the service at the other end of a socket until the service is gone."""
    end_with_parent()
    configure_logging("worker")
    threading.excepthook = lambda arguments: _log_unhandled_error(arguments.exc_value)
    code = 0
    try:
        asyncio.run(_serve(socket.socket(fileno=descriptor)))
    except BaseException as error:  # noqa: BLE001 - its text may quote a reviewed object, so it must not reach standard error
        _log_unhandled_error(error)
        code = 1
    logging.shutdown()
    os._exit(code)  # threads that never end must not keep the process alive


def _log_unhandled_error(error: BaseException | None) -> None:
    _log.error("unhandled error in a worker", extra={"error": "" if error is None else describe_error(error)})


if __name__ == "__main__":
    main(int(sys.argv[1]))
