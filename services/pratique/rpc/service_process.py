"""The process of a gRPC service: logging, event loop, readiness, signals and draining."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Coroutine, Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING

import uvloop

from pratique.processes.allocator import keep_freed_memory
from pratique.processes.garbage_collection import freeze_loaded
from pratique.processes.thread_pool import set_switch_interval
from pratique.rpc.metrics import ServiceMetrics
from pratique.rpc.servers import MethodWrapper, RpcServer, RpcService, ServerSettings
from pratique.telemetry.logs import configure_logging, log_loop_error
from pratique.telemetry.loop_watchdog import LoopWatchdog
from pratique.telemetry.tracing import open_tracing

if TYPE_CHECKING:
    from pratique.telemetry.tracers import Tracing

_log = logging.getLogger(__name__)

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def run_server(
    name: str,
    services: Sequence[RpcService],
    settings: ServerSettings,
    metrics: ServiceMetrics | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain. A second signal ends the process at once.

    Prints ``pratique: <name> ready on <host>:<port>`` to standard output once it accepts calls.

    Raises:
        ConfigurationError: the server cannot listen on an address or use the TLS files.
    """
    asyncio.get_running_loop().set_exception_handler(log_loop_error)
    with contextlib.ExitStack() as stack:
        wrappers: list[MethodWrapper] = [] if metrics is None else [metrics.calls]
        tracing = open_tracing(name)
        if tracing is not None:
            stack.callback(tracing.close)
            wrappers.append(_call_traces(tracing))
        server = RpcServer(services, settings, wrappers)
        watchdog = stack.enter_context(LoopWatchdog())
        if metrics is not None:
            stack.enter_context(metrics.served(settings, server, watchdog))
        await _serve_until_signal(name, server)


def _call_traces(tracing: Tracing) -> MethodWrapper:
    from pratique.rpc.call_traces import CallTraces  # noqa: PLC0415 - imports OpenTelemetry

    return CallTraces(tracing)


async def _serve_until_signal(name: str, server: RpcServer) -> None:
    with _stop_signals() as stop:
        address = await server.start()
        freeze_loaded()
        _print_line(f"pratique: {name} ready on {address}")
        await stop.wait()
        _log.info("draining")
        await server.drain()


def run_process(name: str, service: Coroutine[None, None, None]) -> None:
    """Run a service as this process, with its logs, on uvloop, and with a switch interval that keeps the loop quick."""
    configure_logging(name)
    set_switch_interval()
    keep_freed_memory()
    uvloop.run(service)


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@contextlib.contextmanager
def _stop_signals() -> Iterator[asyncio.Event]:
    """Set an event on the first signal, and leave the second to the operating system.

    The handlers are Python's, not the event loop's, so that they also run while a controller blocks the loop.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        for number in _STOP_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        loop.call_soon_threadsafe(stop.set)

    previous = {number: signal.signal(number, on_signal) for number in _STOP_SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
