"""The process of a gRPC service: logging, event loop, readiness, signals and draining."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import sys
from collections.abc import Coroutine, Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING

import uvloop

from pratique.processes.thread_pool import set_switch_interval
from pratique.rpc.metrics import ServiceMetrics
from pratique.rpc.servers import MethodWrapper, RpcServer, RpcService, ServerSettings
from pratique.telemetry.logs import configure_logging, log_loop_error
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

    Says ``pratique: <name> ready on <host>:<port>`` on standard output once calls are taken.

    Raises:
        ConfigurationError: an address cannot be listened on, or the TLS files cannot be used.
    """
    asyncio.get_running_loop().set_exception_handler(log_loop_error)
    with contextlib.ExitStack() as stack:
        watchers: list[MethodWrapper] = [] if metrics is None else [metrics.calls]
        tracing = open_tracing(name)
        if tracing is not None:
            stack.callback(tracing.close)
            watchers.append(_call_traces(tracing))
        server = RpcServer(services, settings, watchers)
        if metrics is not None:
            stack.enter_context(metrics.served(settings, server))
        await _serve_until_signal(name, server)


def _call_traces(tracing: Tracing) -> MethodWrapper:
    from pratique.rpc.call_traces import CallTraces  # noqa: PLC0415 - imports OpenTelemetry

    return CallTraces(tracing)


async def _serve_until_signal(name: str, server: RpcServer) -> None:
    with _stop_signals() as stop:
        address = await server.start()
        # What is there now stays; collections that walk it would be felt in the slowest answers.
        gc.collect()
        gc.freeze()
        _print_line(f"pratique: {name} ready on {address}")
        await stop.wait()
        _log.info("draining")
        await server.drain()


def run_process(name: str, service: Coroutine[None, None, None]) -> None:
    """Run a service as this process: with logs under its name, on uvloop, and with threads that do not hold it up."""
    configure_logging(name)
    set_switch_interval()
    uvloop.run(service)


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@contextlib.contextmanager
def _stop_signals() -> Iterator[asyncio.Event]:
    """Turn the first signal into an event, and leave the second to the operating system.

    The handlers are Python's, not the event loop's: they run also while a controller keeps the loop busy.
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
